import LogStore
import Runtime
import Synchronization

/// The number of messages that a feed's reader may still bring, and their approximate bytes. The reader and the dispatcher share it.
///
/// The messages also count against the memory of all feeds, from the moment the reader brings them until they are done. A feed
/// without messages in memory may always bring one message.
final class FeedWindow: Sendable {
    /// A feed's account in the memory of all feeds.
    struct Account: Sendable {
        let memory: FeedMemory
        let claim: FeedClaim
        let namespace: String
    }

    /// A number of messages and their bytes.
    private struct Amount {
        var messages = 0
        var bytes = 0
    }
    private struct State {
        var room: Amount
        /// The messages that the reader has brought and the dispatcher has not yet accepted.
        var inFlight = Amount()
        /// The bytes of the messages that the dispatcher has accepted and that are not done.
        var heldBytes = 0
        /// The bytes charged to the account.
        var chargedBytes = 0
        var isWaitedFor = false
        var isClosed = false

        var free: Int {
            room.bytes > inFlight.bytes ? max(0, room.messages - inFlight.messages) : 0
        }
    }
    private let state: Mutex<State>
    private let bytes: Int
    private let account: Account?

    /// - Parameters:
    ///   - room: The maximum number of messages in memory.
    ///   - bytes: The approximate maximum of their bytes.
    ///   - account: The account to charge, or nil if the feed does not share memory.
    init(room: Int, bytes: Int, account: Account? = nil) {
        self.bytes = bytes
        self.account = account
        state = Mutex(State(room: Amount(messages: room, bytes: bytes)))
    }

    /// Returns the number of messages that the reader may bring now. If the number is 0, the dispatcher wakes the reader
    /// once the window has room.
    func available() -> Int {
        state.withLock { state in
            let count = free(state)
            if count == 0 { state.isWaitedFor = true }
            return count
        }
    }

    /// Whether the window has room for at least one message.
    var hasRoom: Bool { state.withLock { free($0) > 0 } }

    private func free(_ state: State) -> Int {
        guard state.free > 0, let account else { return state.free }
        // The first message is always allowed, so that the feed makes progress however much memory other feeds use.
        if state.chargedBytes == 0 { return account.hasRoom ? state.free : 1 }
        return account.hasRoom ? state.free : 0
    }

    /// Records that the reader has brought a message of this size.
    ///
    /// - Returns: Whether the window has room for another message.
    @discardableResult
    func bring(bytes: Int) -> Bool {
        state.withLock { state in
            state.inFlight.messages += 1
            state.inFlight.bytes += bytes
            charge(&state)
            return free(state) > 0
        }
    }

    /// Records that the dispatcher has accepted a number of messages.
    func take(_ count: Int, bytes: Int) {
        state.withLock { state in
            state.inFlight.messages -= count
            state.inFlight.bytes -= bytes
            // These bytes count as held until the dispatcher reports its room.
            state.heldBytes += bytes
        }
    }

    /// Sets the room that the dispatcher reports. Returns whether the reader is waiting and can resume.
    func mayContinue(room: Int, bytes: Int, enough: Int) -> Bool {
        state.withLock { state in
            state.room = Amount(messages: max(0, room), bytes: max(0, bytes))
            state.heldBytes = max(0, self.bytes - bytes)
            charge(&state)
            let free = free(state)
            // The window may stay below `enough` because other feeds use the memory.
            let isEnough = free >= enough || (account != nil && state.chargedBytes == 0)
            guard state.isWaitedFor, free > 0, isEnough else { return false }
            state.isWaitedFor = false
            return true
        }
    }

    /// Releases the feed's memory. The feed no longer runs on this gateway.
    func close() {
        state.withLock { state in
            state.isClosed = true
            state.chargedBytes = 0
            if let account { account.memory.releaseAll(by: account.claim, of: account.namespace) }
        }
    }

    private func charge(_ state: inout State) {
        guard let account, !state.isClosed else { return }
        let bytes = state.heldBytes + state.inFlight.bytes
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

/// The memory budget for the messages of all feeds, in estimated bytes. Namespaces share it first, then the feeds of each
/// namespace, according to `FairLedger`. Usable on any thread.
public final class FeedMemory: Sendable {
    private let ledger: Mutex<FairLedger<String, FeedClaim>>

    /// - Parameter bytes: The budget of all feeds together.
    public init(bytes: Int) { ledger = Mutex(FairLedger(capacity: bytes)) }

    /// The bytes that all feeds use now.
    var usedBytes: Int { ledger.withLock { $0.used } }

    /// Returns whether a feed may bring another message into memory.
    func hasRoom(for claim: FeedClaim, of namespace: String) -> Bool {
        ledger.withLock { $0.allows(for: claim, of: namespace) }
    }

    /// Charges a feed for messages that are already in memory.
    func charge(_ bytes: Int, to claim: FeedClaim, of namespace: String) {
        ledger.withLock { $0.charge(bytes, to: claim, of: namespace) }
    }

    /// Releases the bytes of messages that have left memory.
    func release(_ bytes: Int, by claim: FeedClaim, of namespace: String) {
        ledger.withLock { $0.release(bytes, by: claim, of: namespace) }
    }

    /// Releases all memory of a feed that no longer runs on this gateway.
    func releaseAll(by claim: FeedClaim, of namespace: String) {
        ledger.withLock { $0.releaseAll(by: claim, of: namespace) }
    }
}
