import Synchronization

/// Buckets of one limit by caller, in parts with a lock each.
final class LimitBuckets<Key: Hashable & Sendable>: Sendable {
    private final class Part: Sendable {
        let buckets: Mutex<RecentTable<Key, TokenBucket>>

        init(capacity: Int) { buckets = Mutex(RecentTable(capacity: capacity)) }
    }

    private let limit: RateLimit
    private let parts: [Part]

    /// - Parameter most: the callers that are remembered.
    init(_ limit: RateLimit, most: Int) {
        self.limit = limit
        let count = most >= 1_024 ? 16 : 1
        parts = (0..<count).map { _ in Part(capacity: most / count) }
    }

    /// Takes from a caller's bucket, or says in how many milliseconds it may be asked again.
    func take(_ amount: Double, of key: Key, _ nowMilliseconds: Int64) -> Int64? {
        part(of: key).buckets.withLock { buckets in
            buckets.with(key, new: TokenBucket(limit, nowMilliseconds: nowMilliseconds)) { bucket in
                bucket.take(amount, limit, nowMilliseconds: nowMilliseconds)
            }
        }
    }

    private func part(of key: Key) -> Part { parts[Int(UInt(bitPattern: key.hashValue) % UInt(parts.count))] }
}
