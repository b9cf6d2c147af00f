internal import CCrypto

/// Keyed hashes. Pure: no state, any thread.
public enum HMAC {
    /// Returns the HMAC-SHA-256, 32 bytes.
    public static func sha256(_ bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { buffer, count in
            var length: UInt32 = 0
            // An empty key is valid, but its pointer must not be null.
            let made = (key.isEmpty ? [0] : key).withUnsafeBufferPointer { pointer in
                CCrypto.HMAC(
                    EVP_sha256(), pointer.baseAddress, Int32(key.count), bytes, bytes.count, buffer.baseAddress, &length
                )
            }
            count = made == nil ? 0 : Int(length)
        }
    }
}

/// HMAC-SHA-256 of many short texts with one context of libcrypto, because fetching the algorithm and creating a
/// context costs more than hashing a short text. Must not be used by two threads at once.
public struct HMACHasher: ~Copyable {
    /// Nil if libcrypto could not create it.
    private let context: OpaquePointer?

    public init() {
        // The context retains the algorithm.
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

    /// Returns the HMAC-SHA-256, 32 bytes, equal to that of `HMAC.sha256`. Earlier hashes do not affect the result.
    public mutating func sha256(_ bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        // If libcrypto could not allocate a context, this call needs none.
        digest(bytes, key: key) ?? HMAC.sha256(bytes, key: key)
    }

    /// Returns nil if libcrypto fails.
    private func digest(_ bytes: [UInt8], key: [UInt8]) -> [UInt8]? {
        // An empty key is valid, but its pointer must not be null: a null pointer stands for the previous key.
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
