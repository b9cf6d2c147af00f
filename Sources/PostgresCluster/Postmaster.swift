import Glibc
import Runtime
import Synchronization

/// The server process, our child. Any thread.
final class Postmaster: Sendable {
    let processID: pid_t
    /// The exit status, once it has ended and was waited for.
    private let ended = Mutex<Int32?>(nil)

    init(_ processID: pid_t) {
        self.processID = processID
    }

    /// Whether it is still there.
    var isRunning: Bool { exitStatus == nil }

    /// Nil while it runs.
    var exitStatus: Int32? {
        ended.withLock { ended in
            if ended == nil {
                var status: Int32 = 0
                let result = waitpid(processID, &status, WNOHANG)
                if result == processID {
                    ended = ChildProcess.exitCode(status)
                } else if result < 0 && errno == ECHILD {
                    // Somebody else waited for it, or SIGCHLD is ignored.
                    ended = ProcessTable.isAlive(processID) ? nil : -1
                }
            }
            return ended
        }
    }

    func signal(_ number: Int32) {
        ended.withLock { ended in
            // Once it has been waited for, the number may belong to anybody.
            if ended == nil {
                kill(processID, number)
            }
        }
    }

    /// Returns whether it has ended within the time.
    func waitForExit(timeoutMilliseconds: Milliseconds) -> Bool {
        var waitedMilliseconds: Milliseconds = 0
        while isRunning {
            guard waitedMilliseconds < timeoutMilliseconds else { return false }
            pause(milliseconds: 5)
            waitedMilliseconds += 5
        }
        return true
    }
}
