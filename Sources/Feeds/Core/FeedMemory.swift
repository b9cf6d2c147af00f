import LogStore
import Runtime
import Synchronization

/// The memory that the messages of all feeds may take together, in bytes as estimated. Namespaces share it first, then the feeds of each
/// namespace, by the rule of `FairLedger`. Any thread may use it.
public final class FeedMemory: Sendable {
    private let ledger: Mutex<FairLedger<String, FeedClaim>>

    /// - Parameter bytes: The memory for all feeds together.
    public init(bytes: Int) { ledger = Mutex(FairLedger(capacity: bytes)) }

    /// The bytes that all feeds take now.
    var usedBytes: Int { ledger.withLock { $0.used } }

    /// Whether a feed may take in one more message.
    func hasRoom(for claim: FeedClaim, of namespace: String) -> Bool {
        ledger.withLock { $0.allows(for: claim, of: namespace) }
    }

    /// Charges a feed for messages that are in memory already.
    func charge(_ bytes: Int, to claim: FeedClaim, of namespace: String) {
        ledger.withLock { $0.charge(bytes, to: claim, of: namespace) }
    }

    /// Messages of a feed have left memory.
    func release(_ bytes: Int, by claim: FeedClaim, of namespace: String) {
        ledger.withLock { $0.release(bytes, by: claim, of: namespace) }
    }

    /// A feed is not worked here any more: it takes nothing.
    func releaseAll(by claim: FeedClaim, of namespace: String) {
        ledger.withLock { $0.releaseAll(by: claim, of: namespace) }
    }
}
