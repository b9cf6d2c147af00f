internal import CCrypto

/// Keyed hashes. Pure: no state, any thread.
public enum HMAC {
    /// HMAC-SHA-256, 32 bytes.
    public static func sha256(_ bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { buffer, count in
            var length: UInt32 = 0
            // A key of no bytes is a key, too, but its pointer must not be null.
            let made = (key.isEmpty ? [0] : key).withUnsafeBufferPointer { pointer in
                CCrypto.HMAC(
                    EVP_sha256(), pointer.baseAddress, Int32(key.count), bytes, bytes.count, buffer.baseAddress, &length
                )
            }
            count = made == nil ? 0 : Int(length)
        }
    }
}

/// HMAC-SHA-256 of many short texts with one context of libcrypto, as looking for the algorithm and making a context costs
/// more than hashing a short text. Not for use from two threads at once.
public struct HMACHasher: ~Copyable {
    /// Nil where libcrypto has not made one.
    private let context: OpaquePointer?

    public init() {
        // The context holds on to the algorithm.
        let algorithm = EVP_MAC_fetch(nil, OSSL_MAC_NAME_HMAC, nil)
        defer { EVP_MAC_free(algorithm) }
        guard let made = EVP_MAC_CTX_new(algorithm) else {
            context = nil
            return
        }
        var digest = Array(OSSL_DIGEST_NAME_SHA2_256.utf8CString)
        let isSet = digest.withUnsafeMutableBufferPointer { digest in
            EVP_MAC_CTX_set_params(
                made,
                [
                    OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest.baseAddress, 0),
                    OSSL_PARAM_construct_end(),
                ]) == 1
        }
        context = isSet ? made : nil
        if !isSet { EVP_MAC_CTX_free(made) }
    }

    deinit { EVP_MAC_CTX_free(context) }

    /// HMAC-SHA-256, 32 bytes; the same as `HMAC.sha256`. What was hashed before has no part in it.
    public mutating func sha256(_ bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        // Without memory for a context there still is the call that needs none.
        digest(bytes, key: key) ?? HMAC.sha256(bytes, key: key)
    }

    /// Nil where libcrypto could not.
    private func digest(_ bytes: [UInt8], key: [UInt8]) -> [UInt8]? {
        // A key of no bytes is a key, too, but its pointer must not be null: that means the key from before.
        guard let context, EVP_MAC_init(context, key.isEmpty ? [0] : key, key.count, nil) == 1,
            EVP_MAC_update(context, bytes, bytes.count) == 1
        else { return nil }
        let size = Int(SHA256_DIGEST_LENGTH)
        var length = 0
        let hash = [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            count = EVP_MAC_final(context, buffer.baseAddress, &length, size) == 1 ? length : 0
        }
        return hash.count == size ? hash : nil
    }
}
