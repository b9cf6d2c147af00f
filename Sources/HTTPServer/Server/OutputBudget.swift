import Runtime
import Synchronization

/// Limits the unsent bytes of responses and streams, of all connections of a server together. Any thread.
///
/// Bytes that many connections send are counted once. Namespaces share the budget, and the addresses of each namespace
/// share its part: peers of one namespace that do not read can't use up the budget of another namespace.
public final class OutputBudget: Sendable {
    /// The account that unsent bytes are charged to.
    struct Account: Sendable {
        /// The namespace; empty if it is unknown.
        var namespace = ""
        /// The peer's address, or its network (`IPAddress.limitKey`).
        let address: IPAddress
    }

    private let ledger: Mutex<FairLedger<String, IPAddress>>
    private let refusals = Atomic<Int>(0)
    public let bytes: Int

    /// - Parameter bytes: maximum number of unsent bytes, except for one response that is larger than its share.
    public init(bytes: Int) {
        self.bytes = bytes
        ledger = Mutex(FairLedger(capacity: bytes))
    }

    /// The number of unsent bytes.
    public var taken: Int { ledger.withLock { $0.used } }

    /// The number of refusals because the budget was exhausted.
    public var refused: Int { refusals.load(ordering: .relaxed) }

    /// Acquires bytes; returns false and acquires nothing if the budget is exhausted.
    func take(_ count: Int, for account: Account) -> Bool {
        let (namespace, address) = (account.namespace, account.address)
        let hasRoom = ledger.withLock { ledger in
            if ledger.take(count, for: address, of: namespace) { return true }
            // A response may exceed every share. It passes if the address holds little and all others hold less than
            // half.
            let own = ledger.held(by: address, of: namespace)
            guard own < bytes / 4, ledger.used - own <= bytes / 2, count > bytes / 8 else { return false }
            ledger.charge(count, to: address, of: namespace)
            return true
        }
        if !hasRoom { refusals.wrappingAdd(1, ordering: .relaxed) }
        return hasRoom
    }

    func giveBack(_ count: Int, for account: Account) {
        ledger.withLock { $0.release(count, by: account.address, of: account.namespace) }
    }
}
