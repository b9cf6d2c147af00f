import Glibc
import Runtime

/// How a command is told to end, or to read its files again.
protocol Signals: Sendable {
    /// For commands that work and don't wait: Ctrl-C and its like stop what they do, closed pipes end them.
    func interrupt(by interruption: Interruption)

    /// Waits until the program is asked to end.
    ///
    /// - Parameter onHangup: called whenever SIGHUP comes.
    func waitForTermination(onHangup: () -> Void)

    /// Whether the program is asked to end; waits at most so long.
    func isTerminationWanted(milliseconds: Milliseconds) -> Bool
}

/// The process's SIGINT, SIGTERM and SIGHUP. They are blocked in every thread from the start, so that only whoever waits
/// gets them.
struct ProcessSignals: Signals {
    /// To be called before there are other threads.
    static func block() {
        var set = termination
        pthread_sigmask(SIG_BLOCK, &set, nil)
        // Writing to a closed pipe is an error of that write.
        signal(SIGPIPE, SIG_IGN)
    }

    func interrupt(by interruption: Interruption) {
        signal(SIGPIPE, SIG_DFL)
        let thread = Thread(name: "signals", isVital: false) {
            interruption.follow(Self.next) { signal in
                // What isn't committed, PostgreSQL undoes.
                _exit(Interruption.exitCode(signal))
            }
        }
        guard !thread.isStarted else { return }
        // Without a thread they end the program as usual.
        var set = Self.termination
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
    }

    /// The next signal, or nil after so many milliseconds.
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
