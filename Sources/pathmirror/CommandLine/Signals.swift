import Glibc
import Runtime

/// The signals by which a command is asked to end, or to reload its files.
protocol Signals: Sendable {
    /// Handles signals for commands that work and don't wait: Ctrl-C and SIGTERM cancel their work, a closed pipe ends them.
    func interrupt(by interruption: Interruption)

    /// Waits until the program is asked to end.
    ///
    /// - Parameter onHangup: called after each SIGHUP.
    func waitForTermination(onHangup: () -> Void)

    /// Returns whether the program was asked to end; waits up to the given time.
    func isTerminationWanted(milliseconds: Milliseconds) -> Bool
}

/// The process's SIGINT, SIGTERM and SIGHUP. They are blocked in every thread from the start, so that only the waiting thread receives
/// them.
struct ProcessSignals: Signals {
    /// Called before other threads exist.
    static func block() {
        var set = termination
        pthread_sigmask(SIG_BLOCK, &set, nil)
        // Writing to a closed pipe is then an error of that write.
        signal(SIGPIPE, SIG_IGN)
    }

    func interrupt(by interruption: Interruption) {
        signal(SIGPIPE, SIG_DFL)
        let thread = Thread(name: "signals", isVital: false) {
            interruption.follow(Self.next) { signal in
                // PostgreSQL rolls back uncommitted work.
                _exit(Interruption.exitCode(signal))
            }
        }
        guard !thread.isStarted else { return }
        // If the thread can't be started, signals end the program as usual.
        var set = Self.termination
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
    }

    /// Returns the next signal, or nil after the timeout.
    private static func next(within milliseconds: Milliseconds?) -> Int32? {
        var set = termination
        guard let milliseconds else {
            var received: Int32 = 0
            while sigwait(&set, &received) != 0 {}
            return received
        }
        var timeout = timespec(tv_sec: Int(milliseconds / 1000), tv_nsec: Int(milliseconds % 1000 * 1_000_000))
        let received = sigtimedwait(&set, nil, &timeout)
        return received > 0 ? received : nil
    }

    func waitForTermination(onHangup: () -> Void) {
        var set = Self.termination
        var received: Int32 = 0
        while true {
            guard sigwait(&set, &received) == 0 else { continue }
            guard received == SIGHUP else { return }
            onHangup()
        }
    }

    func isTerminationWanted(milliseconds: Milliseconds) -> Bool {
        Self.next(within: milliseconds) != nil
    }

    private static var termination: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, SIGINT)
        sigaddset(&set, SIGTERM)
        sigaddset(&set, SIGHUP)
        return set
    }
}
