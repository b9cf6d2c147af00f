import LogStore
import Runtime
import Synchronization

/// How many more messages a feed's reader may bring, and about how many bytes of them: shared by the reader and the dispatcher.
///
/// The messages also count in the memory of all feeds, from the moment when the reader has brought them until they are done. A feed that has no
/// message in memory may always bring one.
final class FeedWindow: Sendable {
    /// An account in the memory of all feeds.
    struct Account: Sendable {
        let memory: FeedMemory
        let claim: FeedClaim
        let namespace: String
    }

    /// An amount of messages.
    private struct Amount {
        var messages = 0
        var bytes = 0
    }
    private struct State {
        var room: Amount
        /// What was brought and the dispatcher has not taken in yet.
        var underWay = Amount()
        /// The bytes that the dispatcher has taken in and that are not done.
        var heldBytes = 0
        /// The bytes that the account is charged with.
        var chargedBytes = 0
        var isWaitedFor = false
        var isClosed = false

        var free: Int {
            room.bytes > underWay.bytes ? max(0, room.messages - underWay.messages) : 0
        }
    }
    private let state: Mutex<State>
    private let bytes: Int
    private let account: Account?

    /// - Parameters:
    ///   - room: The messages that may be in memory.
    ///   - bytes: About how many bytes they may have.
    ///   - account: Nil for a feed alone.
    init(room: Int, bytes: Int, account: Account? = nil) {
        self.bytes = bytes
        self.account = account
        state = Mutex(State(room: Amount(messages: room, bytes: bytes)))
    }

    /// What may be brought now. Where that is nothing, the dispatcher says when there is room again.
    func available() -> Int {
        state.withLock { state in
            let count = free(state)
            if count == 0 { state.isWaitedFor = true }
            return count
        }
    }

    /// Whether more messages may be taken into memory.
    var hasRoom: Bool { state.withLock { free($0) > 0 } }

    private func free(_ state: State) -> Int {
        guard state.free > 0, let account else { return state.free }
        // The first message makes progress whatever others take.
        if state.chargedBytes == 0 { return account.hasRoom ? state.free : 1 }
        return account.hasRoom ? state.free : 0
    }

    /// A message of that size is on its way to the dispatcher.
    ///
    /// - Returns: Whether there is room for one more.
    @discardableResult
    func bring(bytes: Int) -> Bool {
        state.withLock { state in
            state.underWay.messages += 1
            state.underWay.bytes += bytes
            charge(&state)
            return free(state) > 0
        }
    }

    /// The dispatcher has taken so many in.
    func take(_ count: Int, bytes: Int) {
        state.withLock { state in
            state.underWay.messages -= count
            state.underWay.bytes -= bytes
            // Until the dispatcher says how much room it has, they are there.
            state.heldBytes += bytes
        }
    }

    /// The dispatcher has room for so many more. True where the reader waits and can go on.
    func mayGoOn(room: Int, bytes: Int, enough: Int) -> Bool {
        state.withLock { state in
            state.room = Amount(messages: max(0, room), bytes: max(0, bytes))
            state.heldBytes = max(0, self.bytes - bytes)
            charge(&state)
            let free = free(state)
            // What is free may be less than enough because others take memory.
            let isEnough = free >= enough || (account != nil && state.chargedBytes == 0)
            guard state.isWaitedFor, free > 0, isEnough else { return false }
            state.isWaitedFor = false
            return true
        }
    }

    /// The feed is not worked here any more.
    func close() {
        state.withLock { state in
            state.isClosed = true
            state.chargedBytes = 0
            if let account { account.memory.releaseAll(by: account.claim, of: account.namespace) }
        }
    }

    private func charge(_ state: inout State) {
        guard let account, !state.isClosed else { return }
        let bytes = state.heldBytes + state.underWay.bytes
        if bytes > state.chargedBytes {
            account.memory.charge(bytes - state.chargedBytes, to: account.claim, of: account.namespace)
        } else if bytes < state.chargedBytes {
            account.memory.release(state.chargedBytes - bytes, by: account.claim, of: account.namespace)
        }
        state.chargedBytes = bytes
    }
}

extension FeedWindow.Account {
    fileprivate var hasRoom: Bool { memory.hasRoom(for: claim, of: namespace) }
}

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
