import Glibc
import Postgres
import Runtime
import Synchronization

/// Ctrl-C, or a supervisor's polite end, while a command works.
///
/// The first one asks: what runs in the database is stopped, the command fails with that, cleans up, and says what was done
/// and how to go on. The second one ends the program at once.
final class Interruption: Sendable {
    private struct State {
        var signal: Int32?
        var isNoticed = false
        var handles: [PostgresCancelHandle] = []
    }

    private let state = Mutex(State())

    /// The signal that came, if one did.
    var signal: Int32? { state.withLock { $0.signal } }

    /// Whether the command knows, and is about to end.
    var isNoticed: Bool { state.withLock { $0.isNoticed } }

    /// What shells know: 130 for Ctrl-C, 143 for SIGTERM.
    static func exitCode(_ signal: Int32) -> Int32 { 128 + signal }

    /// Counts in a connection whose statements are to be stopped.
    func stops(_ handle: PostgresCancelHandle) { state.withLock { $0.handles.append(handle) } }

    /// - Throws: `Interrupted` when the command is to stop.
    func check() throws(Interrupted) {
        if signal != nil { throw Interrupted() }
    }

    /// To be called by a command that has failed, before it says why.
    func notice() { state.withLock { $0.isNoticed = true } }

    /// Notes a signal.
    ///
    /// - Returns: false if it is not the first.
    func note(_ signal: Int32) -> Bool {
        state.withLock { state in
            guard state.signal == nil else { return false }
            state.signal = signal
            return true
        }
    }

    /// Asks the servers to stop what runs now. Blocks until they have heard it.
    func stopStatements() {
        for handle in state.withLock({ $0.handles }) { handle.cancelStatement() }
    }
}

/// Whoever works was asked to stop.
struct Interrupted: Error {}

extension Interruption {
    /// How long the servers are asked again and again before the program ends without an answer.
    private static let patience: (attempts: Int, milliseconds: Milliseconds) = (200, 50)

    /// Follows the process's signals for ever: the work of a thread of its own.
    ///
    /// - Parameter next: waits for the next signal, at most so long; nil when none came.
    func follow(_ next: (Milliseconds?) -> Int32?, end: (Int32) -> Void) {
        guard let first = next(nil), note(first) else { return }
        for _ in 0..<Self.patience.attempts where !isNoticed {
            stopStatements()
            // It may have fallen between two statements: then the next one is stopped.
            if let second = next(Self.patience.milliseconds) { return end(second) }
        }
        guard isNoticed else { return end(first) }
        if let second = next(nil) { end(second) }
    }
}
