internal import CCrypto

/// Hash functions of libcrypto. Pure: no state, any thread.
public enum Digest {
    /// SHA-1, 20 bytes. For the protocol's node hashes and ETags only, where the algorithm is given.
    public static func sha1(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA_DIGEST_LENGTH)) { buffer, count in
            SHA1(bytes, bytes.count, buffer.baseAddress)
            count = Int(SHA_DIGEST_LENGTH)
        }
    }

    /// SHA-256, 32 bytes.
    public static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { buffer, count in
            SHA256(bytes, bytes.count, buffer.baseAddress)
            count = Int(SHA256_DIGEST_LENGTH)
        }
    }

    /// Compares without telling by its duration where the difference is. Unequal lengths differ at once.
    public static func isEqualInConstantTime(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
    }
}

/// SHA-1 of many texts with one context of libcrypto, as making a context costs more than hashing a short text. For the
/// protocol's node hashes only, where the algorithm is given. Not for use from two threads at once.
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

    /// Puts the Base64 form of its digest, 28 characters, in the place of the end of a text. What was hashed before has no
    /// part in it.
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
        // Without memory for a context there still is the call that needs none.
        SHA1(text.assumingMemoryBound(to: UInt8.self).baseAddress, text.count, digest)
    }
}
