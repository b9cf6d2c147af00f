import Runtime
import Synchronization

/// Writes log lines about realtime messages above the size limit. Any thread.
///
/// SDKs send such a message again after each reconnection, and a peer can announce one at no cost. So there is at most one
/// line a second; `omitted` is the number of messages since the previous line that have none.
final class LongMessageLog: Sendable {
    private struct State {
        var nextLine: Milliseconds = 0
        var omitted = 0
    }

    private let logger: Logger
    private let limit: Int
    private let state = Mutex(State())
    private static let pauseMilliseconds: Milliseconds = 1_000

    /// - Parameter limit: the largest message, in bytes.
    init(_ logger: Logger, limit: Int) {
        self.logger = logger
        self.limit = limit
    }

    /// Logs that a client's message is too long and that its connection ends.
    func note(from address: IPAddress?, in namespace: String, now: Milliseconds = Clock.monotonicMilliseconds) {
        let omitted = state.withLock { state -> Int? in
            guard now >= state.nextLine else {
                state.omitted += 1
                return nil
            }
            defer { state = State(nextLine: now + Self.pauseMilliseconds) }
            return state.omitted
        }
        guard let omitted else { return }
        logger.warning(
            "a realtime message is larger than --max-user-body: its connection is closed",
            [
                ("namespace", namespace), ("address", address.map { "\($0)" } ?? "unknown"), ("limit", "\(limit)"),
                ("omitted", "\(omitted)"),
            ])
    }
}
