import Glibc
import Runtime

/// Starts programs with posix_spawn, in their own session (the terminal's Ctrl-C does not reach them), with default
/// signal handling and a clean environment.
enum ChildProcess {
    /// Starts a program.
    ///
    /// - Parameter output: the file descriptor for standard output and standard error.
    /// - Returns: the process id. The caller must wait for the process.
    static func spawn(_ command: [String], output: Int32) throws(ClusterError) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        posix_spawn_file_actions_adddup2(&actions, output, 2)
        // Descriptors that this process has inherited may be open across exec. A server that outlives this process must
        // not keep another program's pipe open.
        for descriptor in ClusterFiles.names(in: "/proc/self/fd").compactMap({ Int32($0) }) where descriptor > 2 {
            if fcntl(descriptor, F_GETFD) & FD_CLOEXEC == 0 {
                posix_spawn_file_actions_addclose(&actions, descriptor)
            }
        }
        var none = sigset_t()
        var all = sigset_t()
        sigemptyset(&none)
        sigfillset(&all)
        // A process that waits for signals blocks them. A child would inherit the mask and never stop.
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        let flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | setSession
        posix_spawnattr_setflags(&attributes, Int16(flags))

        let arguments = command.map { strdup($0) }
        let environment = Self.environment.map { strdup($0) }
        defer {
            for text in arguments + environment {
                free(text)
            }
        }
        var process: pid_t = 0
        let code = posix_spawnp(&process, command[0], &actions, &attributes, arguments + [nil], environment + [nil])
        guard code == 0 else { throw ClusterFiles.fail("run \(command[0])", code) }
        return process
    }

    /// Runs a command to its end and returns its exit status (128 + signal if it was killed) and its output.
    static func run(_ command: [String]) throws(ClusterError) -> (status: Int32, output: String) {
        // The sockets are close-on-exec from the start, which Swift's Glibc does not offer for pipes. If a server
        // started by another thread at this moment inherited this end, reading would wait for that server to end.
        var ends: [Int32] = [0, 0]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            throw ClusterFiles.fail("create a socket pair")
        }
        let process: pid_t
        do throws(ClusterError) {
            process = try spawn(command, output: ends[1])
        } catch {
            close(ends[0])
            close(ends[1])
            throw error
        }
        close(ends[1])
        let output = ClusterFiles.readAll(ends[0])
        close(ends[0])
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 && errno == EINTR {}
        return (exitCode(status), String(decoding: output, as: UTF8.self))
    }

    static func exitCode(_ status: Int32) -> Int32 {
        status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + status & 0x7F
    }

    /// POSIX_SPAWN_SETSID, which is missing in Swift's Glibc.
    private static let setSession: Int32 = 0x80

    /// The environment is not inherited: PG… variables would change PostgreSQL's behavior. Setting the time zone saves
    /// initdb a search.
    private static let environment = [
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TZ=UTC",
    ]
}

/// Pauses between two checks of a state that can only be polled.
func pause(milliseconds: Milliseconds) {
    usleep(UInt32(milliseconds * 1000))
}
