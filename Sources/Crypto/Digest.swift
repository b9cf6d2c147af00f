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
