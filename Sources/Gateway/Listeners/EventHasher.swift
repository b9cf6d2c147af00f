import Crypto
import Synchronization

/// Makes the keyed hashes in the ids of events. Any thread; hashes that are made at the same time wait for one another.
final class EventHasher: Sendable {
    private let hasher = Mutex(HMACHasher())

    /// HMAC-SHA-256, 32 bytes.
    func sha256(_ bytes: [UInt8], key: [UInt8]) -> [UInt8] { hasher.withLock { $0.sha256(bytes, key: key) } }
}
