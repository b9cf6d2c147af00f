import Synchronization

/// How many more messages a feed's reader may bring: shared by the reader and the dispatcher.
final class FeedWindow: Sendable {
    private struct State {
        var room: Int
        /// Messages that were brought, and those of them that the dispatcher has taken in.
        var brought = 0
        var taken = 0
        var isWaitedFor = false
    }
    private let state: Mutex<State>

    init(room: Int) { state = Mutex(State(room: room)) }

    /// What may be brought now. Where that is nothing, the dispatcher says when there is room again.
    func available() -> Int {
        state.withLock { state in
            let count = max(0, state.room - (state.brought - state.taken))
            if count == 0 { state.isWaitedFor = true }
            return count
        }
    }

    /// So many messages are on their way to the dispatcher.
    func bring(_ count: Int) { state.withLock { $0.brought += count } }

    /// The dispatcher has taken so many in, and has room for so many more. True where the reader waits and can go on.
    func take(_ count: Int, room: Int, enough: Int) -> Bool {
        state.withLock { state in
            state.taken += count
            state.room = room
            guard state.isWaitedFor, room - (state.brought - state.taken) >= enough else { return false }
            state.isWaitedFor = false
            return true
        }
    }
}
