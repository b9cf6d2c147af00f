internal import CCrypto

/// Hash functions of libcrypto. Pure: no state, any thread.
public enum Digest {
    /// Returns the SHA-1, 20 bytes. Only for the protocol's node hashes and ETags, which prescribe the algorithm.
    public static func sha1(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA_DIGEST_LENGTH)) { buffer, count in
            SHA1(bytes, bytes.count, buffer.baseAddress)
            count = Int(SHA_DIGEST_LENGTH)
        }
    }

    /// Returns the SHA-256, 32 bytes.
    public static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { buffer, count in
            SHA256(bytes, bytes.count, buffer.baseAddress)
            count = Int(SHA256_DIGEST_LENGTH)
        }
    }

    /// Compares in a time that does not reveal the position of the difference. Unequal lengths return at once.
    public static func isEqualInConstantTime(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
    }
}

/// SHA-1 of many texts with one context of libcrypto, because creating a context costs more than hashing a short text.
/// Only for the protocol's node hashes, which prescribe the algorithm. Must not be used by two threads at once.
public struct SHA1Hasher: ~Copyable {
    private let algorithm: OpaquePointer?
    private let context: OpaquePointer?

    public init() {
        algorithm = EVP_MD_fetch(nil, "SHA1", nil)
        context = EVP_MD_CTX_new()
        EVP_DigestInit_ex2(context, algorithm, nil)
    }

    deinit {
        EVP_MD_CTX_free(context)
        EVP_MD_free(algorithm)
    }

    /// Replaces the end of a text with the Base64 form of its digest, 28 characters. Earlier hashes do not affect the
    /// result.
    public mutating func replaceEnd(of text: inout [UInt8], from start: Int) {
        let size = Int(SHA_DIGEST_LENGTH)
        withUnsafeTemporaryAllocation(byteCount: size, alignment: 1) { buffer in
            text.withUnsafeBytes { digest(UnsafeRawBufferPointer(rebasing: $0[start...]), into: buffer) }
            text.removeSubrange(start...)
            Base64.append(UnsafeRawBufferPointer(buffer), to: &text)
        }
    }

    private func digest(_ text: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer) {
        let digest = buffer.assumingMemoryBound(to: UInt8.self).baseAddress
        if context != nil, EVP_DigestInit_ex2(context, nil, nil) == 1,
            EVP_DigestUpdate(context, text.baseAddress, text.count) == 1,
            EVP_DigestFinal_ex(context, digest, nil) == 1
        {
            return
        }
        // If libcrypto could not allocate a context, this call needs none.
        SHA1(text.assumingMemoryBound(to: UInt8.self).baseAddress, text.count, digest)
    }
}

/// SHA-1 of texts that arrive in pieces, one text after another. Only for the protocol's hashes, which prescribe the
/// algorithm. Must not be used by two threads at once.
public struct SHA1Stream: ~Copyable {
    private let context: OpaquePointer?
    /// The whole text, if libcrypto could not allocate a context.
    private var pieces: [UInt8] = []

    public init() {
        let context = EVP_MD_CTX_new()
        if context != nil, EVP_DigestInit_ex(context, EVP_sha1(), nil) != 1 {
            EVP_MD_CTX_free(context)
            self.context = nil
        } else {
            self.context = context
        }
    }

    deinit { EVP_MD_CTX_free(context) }

    /// Adds the next piece of the text.
    public mutating func add(_ piece: [UInt8]) {
        guard context != nil else { return pieces.append(contentsOf: piece) }
        EVP_DigestUpdate(context, piece, piece.count)
    }

    /// Returns the Base64 form of the text's digest, 28 characters, and begins the next text.
    public mutating func finish() -> String {
        guard context != nil else {
            defer { pieces = [] }
            return String(decoding: Base64.encode(Digest.sha1(pieces)), as: UTF8.self)
        }
        let digest = [UInt8](unsafeUninitializedCapacity: Int(SHA_DIGEST_LENGTH)) { buffer, count in
            EVP_DigestFinal_ex(context, buffer.baseAddress, nil)
            count = Int(SHA_DIGEST_LENGTH)
        }
        EVP_DigestInit_ex(context, nil, nil)
        return String(decoding: Base64.encode(digest), as: UTF8.self)
    }
}
