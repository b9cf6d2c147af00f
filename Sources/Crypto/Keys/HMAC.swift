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
