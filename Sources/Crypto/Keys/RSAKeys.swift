internal import CCrypto

/// A key of libcrypto, freed with its last owner.
///
/// @unchecked Sendable is safe: a key is never changed after its creation, its reference count is atomic, and libcrypto
/// allows any number of threads to use one key for verifying and signing.
private final class KeyHandle: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Takes over the key; returns nil if there is none.
    init?(owning pointer: OpaquePointer?) {
        // libcrypto's record of a rejected text must not appear as the reason of a later failure.
        ERR_clear_error()
        guard let pointer else { return nil }
        self.pointer = pointer
    }

    deinit { EVP_PKEY_free(pointer) }

    /// Throws unless the key is an RSA key of an accepted size.
    func requireRSA() throws(CryptoError) {
        guard EVP_PKEY_get_base_id(pointer) == EVP_PKEY_RSA else { throw .unusableKey("it is not an RSA key") }
        let bits = EVP_PKEY_get_bits(pointer)
        guard (2_048...8_192).contains(bits) else {
            throw .unusableKey("it has \(bits) bits; 2048 to 8192 are allowed")
        }
    }
}

/// An RSA public key of 2,048 to 8,192 bits, for checking RS256 signatures (RSASSA-PKCS1-v1_5 with SHA-256).
public struct RSAPublicKey: Sendable {
    private let handle: KeyHandle

    /// Creates a key from modulus and exponent, big-endian: the `n` and `e` of a JWK.
    public init(modulus: [UInt8], exponent: [UInt8]) throws(CryptoError) {
        let isOdd = { (number: [UInt8]) in (number.last ?? 0) & 1 == 1 }
        let exponentDigits = exponent.drop { $0 == 0 }
        guard modulus.count <= 1_025, (1...8).contains(exponentDigits.count), isOdd(modulus), isOdd(exponent),
            !exponentDigits.elementsEqual([1]),
            let handle = KeyHandle(
                owning: pathmirror_rsa_public_key(modulus, modulus.count, exponent, exponent.count))
        else { throw .notAKey("an RSA key's modulus and exponent") }
        try handle.requireRSA()
        self.handle = handle
    }

    /// Creates the key of an X.509 certificate in PEM. The certificate's own signature and dates are not checked: the
    /// source of the certificate vouches for it.
    public init(certificatePEM text: String) throws(CryptoError) {
        let bytes = Array(text.utf8)
        guard bytes.count <= 64 * 1024, let handle = KeyHandle(owning: pathmirror_certificate_key(bytes, bytes.count))
        else { throw .notAKey("an X.509 certificate in PEM") }
        try handle.requireRSA()
        self.handle = handle
    }

    /// Creates a key from a SubjectPublicKeyInfo in DER, the form of `derBytes`.
    public init(der bytes: [UInt8]) throws(CryptoError) {
        let handle = bytes.withUnsafeBufferPointer { buffer -> KeyHandle? in
            guard buffer.count <= 8_192 else { return nil }
            var position = buffer.baseAddress
            let handle = KeyHandle(owning: d2i_PUBKEY(nil, &position, buffer.count))
            // The key must be the whole input.
            return position == buffer.baseAddress?.advanced(by: buffer.count) ? handle : nil
        }
        guard let handle else { throw .notAKey("a public key in DER") }
        try handle.requireRSA()
        self.handle = handle
    }

    /// Returns whether the bytes were signed with the matching private key.
    public func isValidSignature(_ signature: [UInt8], of bytes: [UInt8]) -> Bool {
        guard signature.count == Int(EVP_PKEY_get_size(handle.pointer)), let context = EVP_MD_CTX_new() else {
            return false
        }
        defer {
            EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, handle.pointer) == 1
            && EVP_DigestVerify(context, signature, signature.count, bytes, bytes.count) == 1
    }
}

/// An RSA private key of 2,048 to 8,192 bits, for signing as RS256.
public struct RSAPrivateKey: Sendable {
    private let handle: KeyHandle

    /// Creates a key from an unencrypted private key in PEM.
    public init(pem text: [UInt8]) throws(CryptoError) {
        guard text.count <= 64 * 1024, let handle = KeyHandle(owning: pathmirror_private_key(text, text.count)) else {
            throw .notAKey("a private key in PEM without a password")
        }
        try handle.requireRSA()
        self.handle = handle
    }

    /// Creates a new key of 2,048 bits. Takes some tenths of a second.
    public static func generate() throws(CryptoError) -> RSAPrivateKey {
        guard let handle = KeyHandle(owning: pathmirror_new_rsa_key(2_048)) else { throw .cannotGenerate }
        return RSAPrivateKey(handle)
    }

    private init(_ handle: KeyHandle) { self.handle = handle }

    /// Returns the key in PEM (PKCS #8), without a password.
    public func pem() throws(CryptoError) -> [UInt8] {
        guard let output = pathmirror_private_key_text(handle.pointer) else { throw .cannotGenerate }
        defer { BIO_free(output) }
        var start: UnsafePointer<CChar>?
        let count = pathmirror_written(output, &start)
        return UnsafeRawBufferPointer(start: start, count: count).map { $0 }
    }

    /// Returns the public key as a SubjectPublicKeyInfo in DER, the input of `RSAPublicKey(der:)`.
    public func publicKeyDER() throws(CryptoError) -> [UInt8] {
        let size = Int(i2d_PUBKEY(handle.pointer, nil))
        guard size > 0 else { throw .cannotGenerate }
        return [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            var position = buffer.baseAddress
            count = max(0, Int(i2d_PUBKEY(handle.pointer, &position)))
        }
    }

    /// Returns the RS256 signature of the bytes.
    public func sign(_ bytes: [UInt8]) throws(CryptoError) -> [UInt8] {
        guard let context = EVP_MD_CTX_new() else { throw .cannotSign }
        defer {
            EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, handle.pointer) == 1 else { throw .cannotSign }
        var isSigned = false
        let signature = [UInt8](unsafeUninitializedCapacity: Int(EVP_PKEY_get_size(handle.pointer))) { buffer, count in
            var length = buffer.count
            isSigned = EVP_DigestSign(context, buffer.baseAddress, &length, bytes, bytes.count) == 1
            count = isSigned ? length : 0
        }
        guard isSigned else { throw .cannotSign }
        return signature
    }
}

/// The reason why a key can't be used. Contains no part of a key.
public enum CryptoError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The input is not a key of the expected form.
    case notAKey(String)
    /// The input is a key, but must not be used here.
    case unusableKey(String)
    case cannotSign
    case cannotGenerate

    public var description: String {
        switch self {
        case .notAKey(let form): "This is not \(form)."
        case .unusableKey(let reason): "This key can't be used: \(reason)."
        case .cannotSign: "Signing with the key failed."
        case .cannotGenerate: "libcrypto can't create a key."
        }
    }
}
