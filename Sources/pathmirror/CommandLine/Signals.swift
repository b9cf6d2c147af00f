import Glibc

/// SIGINT and SIGTERM as something to wait for. They are blocked in every thread from the start, so that only whoever
/// waits gets them.
enum Signals {
    static func block() {
        var set = termination
        pthread_sigmask(SIG_BLOCK, &set, nil)
        // Writing to a closed pipe is an error of that write.
        signal(SIGPIPE, SIG_IGN)
    }

    /// For commands that run for a while but don't wait: Ctrl-C then ends them as usual.
    static func unblock() {
        var set = termination
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
        signal(SIGPIPE, SIG_DFL)
    }

    /// Waits until the program is asked to end.
    ///
    /// - Parameter onHangup: what SIGHUP is for; without it, SIGHUP asks to end, too.
    static func waitForTermination(onHangup: (() -> Void)? = nil) {
        var set = termination
        var received: Int32 = 0
        while true {
            guard sigwait(&set, &received) == 0 else { continue }
            guard received == SIGHUP, let onHangup else { return }
            onHangup()
        }
    }

    /// Whether the program is asked to end; waits at most so long.
    static func isTerminationWanted(milliseconds: Int) -> Bool {
        var set = termination
        var timeout = timespec(tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
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
