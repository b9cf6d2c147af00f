import Glibc
import Runtime

/// How a command is told to end, or to read its files again.
protocol Signals {
    /// For commands that run for a while but don't wait: Ctrl-C then ends them as usual.
    func unblock()

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

    func unblock() {
        var set = Self.termination
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
        signal(SIGPIPE, SIG_DFL)
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
        var set = Self.termination
        var timeout = timespec(tv_sec: Int(milliseconds / 1000), tv_nsec: Int(milliseconds % 1000 * 1_000_000))
        return sigtimedwait(&set, nil, &timeout) > 0
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
