import Runtime
import Synchronization

/// Bounds the bytes of responses and streams that wait for their peers, of all connections of a server together. Any thread.
///
/// Bytes that many connections send are counted once. Namespaces share the budget, and the addresses of each namespace share its
/// part: peers of one namespace that read nothing leave room for those of another.
public final class OutputBudget: Sendable {
    /// On whose account bytes wait.
    struct Account: Sendable {
        /// The namespace; empty where that is not known.
        var namespace = ""
        /// The peer's address, or its network (`IPAddress.limitKey`).
        let address: IPAddress
    }

    private let ledger: Mutex<FairLedger<String, IPAddress>>
    private let refusals = Atomic<Int>(0)
    public let bytes: Int

    /// - Parameter bytes: the most bytes that wait, but for one response that is larger than its share.
    public init(bytes: Int) {
        self.bytes = bytes
        ledger = Mutex(FairLedger(capacity: bytes))
    }

    /// Bytes that wait now.
    public var taken: Int { ledger.withLock { $0.used } }

    /// How often there was no room.
    public var refused: Int { refusals.load(ordering: .relaxed) }

    /// Takes bytes; false, with nothing taken, where there is no room for them.
    func take(_ count: Int, for account: Account) -> Bool {
        let (namespace, address) = (account.namespace, account.address)
        let hasRoom = ledger.withLock { ledger in
            if ledger.take(count, for: address, of: namespace) { return true }
            // A response may be larger than any share: it passes where the address has little, and others take less than half.
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
