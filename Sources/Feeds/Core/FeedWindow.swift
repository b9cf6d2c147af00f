import Synchronization

/// How many more messages a feed's reader may bring, and about how many bytes of them: shared by the reader and the dispatcher.
final class FeedWindow: Sendable {
    /// An amount of messages.
    private struct Amount {
        var messages = 0
        var bytes = 0
    }
    private struct State {
        var room: Amount
        /// What was brought and the dispatcher has not taken in yet.
        var underWay = Amount()
        var isWaitedFor = false

        var free: Int {
            room.bytes > underWay.bytes ? max(0, room.messages - underWay.messages) : 0
        }
    }
    private let state: Mutex<State>

    init(room: Int, bytes: Int) { state = Mutex(State(room: Amount(messages: room, bytes: bytes))) }

    /// What may be brought now. Where that is nothing, the dispatcher says when there is room again.
    func available() -> Int {
        state.withLock { state in
            let count = state.free
            if count == 0 { state.isWaitedFor = true }
            return count
        }
    }

    /// A message of that size is on its way to the dispatcher.
    func bring(bytes: Int) {
        state.withLock { state in
            state.underWay.messages += 1
            state.underWay.bytes += bytes
        }
    }

    /// The dispatcher has taken so many in.
    func take(_ count: Int, bytes: Int) {
        state.withLock { state in
            state.underWay.messages -= count
            state.underWay.bytes -= bytes
        }
    }

    /// The dispatcher has room for so many more. True where the reader waits and can go on.
    func mayGoOn(room: Int, bytes: Int, enough: Int) -> Bool {
        state.withLock { state in
            state.room = Amount(messages: max(0, room), bytes: max(0, bytes))
            guard state.isWaitedFor, state.free >= enough else { return false }
            state.isWaitedFor = false
            return true
        }
    }
}
