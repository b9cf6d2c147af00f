import Glibc
import Postgres
import Runtime
import Synchronization

/// Ctrl-C, or a supervisor's SIGTERM, while a command works.
///
/// After the first signal, statements that run in the database are canceled. The command then fails, cleans up, and states the finished
/// work and the next step. The second signal ends the program at once.
final class Interruption: Sendable {
    private struct State {
        var signal: Int32?
        var isNoticed = false
        var handles: [PostgresCancelHandle] = []
    }

    private let state = Mutex(State())

    /// The signal that arrived, if any.
    var signal: Int32? { state.withLock { $0.signal } }

    /// Whether the command has noticed the signal and is about to end.
    var isNoticed: Bool { state.withLock { $0.isNoticed } }

    /// The exit code that shells expect: 130 for Ctrl-C, 143 for SIGTERM.
    static func exitCode(_ signal: Int32) -> Int32 { 128 + signal }

    /// Adds a connection whose statements a signal cancels.
    func stops(_ handle: PostgresCancelHandle) { state.withLock { $0.handles.append(handle) } }

    /// - Throws: `Interrupted` if the command is to stop.
    func check() throws(Interrupted) {
        if signal != nil { throw Interrupted() }
    }

    /// Called by a command that has failed, before it prints the reason.
    func notice() { state.withLock { $0.isNoticed = true } }

    /// Notes a signal.
    ///
    /// - Returns: false if an earlier signal was noted.
    func note(_ signal: Int32) -> Bool {
        state.withLock { state in
            guard state.signal == nil else { return false }
            state.signal = signal
            return true
        }
    }

    /// Asks the servers to cancel the running statements. Blocks until they have received the request.
    func stopStatements() {
        for handle in state.withLock({ $0.handles }) { handle.cancelStatement() }
    }
}

/// The command was asked to stop.
struct Interrupted: Error {}

extension Interruption {
    /// How often and at which interval the servers are asked again before the program ends without an answer.
    private static let patience: (attempts: Int, milliseconds: Milliseconds) = (200, 50)

    /// Handles the process's signals until the end: the work of a thread of its own.
    ///
    /// - Parameter next: waits for the next signal, up to the given time; nil after a timeout.
    func follow(_ next: (Milliseconds?) -> Int32?, end: (Int32) -> Void) {
        guard let first = next(nil), note(first) else { return }
        for _ in 0..<Self.patience.attempts where !isNoticed {
            stopStatements()
            // The request may have fallen between two statements: the next request stops the second one.
            if let second = next(Self.patience.milliseconds) { return end(second) }
        }
        guard isNoticed else { return end(first) }
        if let second = next(nil) { end(second) }
    }
}
