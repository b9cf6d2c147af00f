import ClientCore
import Synchronization

/// Requests of other threads for a connection, until its loop handles them.
final class WebSocketChannel: RealtimeChannel {
    struct Wishes {
        var texts: [[UInt8]] = []
        var isClosing = false
        var processedBytes = 0
    }

    private struct State {
        var wishes = Wishes()
        /// Whether the loop has been notified of pending requests.
        var isNotified = false
        var isOver = false
        /// Whether the loop has paused reading. Otherwise it need not be notified of processed bytes.
        var isPaused = false
    }

    private let state = Mutex(State())
    private let loop: ClientLoop?

    init(_ loop: ClientLoop?) { self.loop = loop }

    func send(_ text: [UInt8]) {
        wish { $0.wishes.texts.append(text) }
    }

    func close() {
        wish { $0.wishes.isClosing = true }
    }

    func processed(_ byteCount: Int) {
        wish {
            $0.wishes.processedBytes += Self.cost(byteCount)
        } needsLoop: {
            $0.isPaused
        }
    }

    /// Returns the cost of a waiting message. Short and empty ones take memory as well.
    static func cost(_ byteCount: Int) -> Int { byteCount + 256 }

    private func wish(_ change: (inout State) -> Void, needsLoop: (borrowing State) -> Bool = { _ in true }) {
        let notifies = state.withLock { state -> Bool in
            guard !state.isOver else { return false }
            change(&state)
            guard !state.isNotified, needsLoop(state) else { return false }
            state.isNotified = true
            return true
        }
        if notifies { loop?.call { [self] loop in loop.attend(to: self) } }
    }

    // MARK: The loop's thread

    func takeWishes() -> Wishes {
        state.withLock { state in
            defer { state.wishes = Wishes(isClosing: state.wishes.isClosing) }
            state.isNotified = false
            return state.wishes
        }
    }

    /// Sets whether the loop is notified of processed bytes; returns those processed meanwhile.
    func setPaused(_ isPaused: Bool) -> Int {
        state.withLock { state in
            state.isPaused = isPaused
            defer { state.wishes.processedBytes = 0 }
            return state.wishes.processedBytes
        }
    }

    func end() {
        state.withLock { state in
            state.isOver = true
            state.wishes = Wishes()
        }
    }
}
