public import Glibc
import Synchronization

/// A program started by a test. It ends with its test, and with the test program, however that ends.
public final class TestProcess: Sendable {
    public struct Failure: Error {}

    private struct State {
        var isRunning = true
        var guardian: pid_t
        var line: Int32
    }

    public let processID: pid_t
    private let state: Mutex<State>

    /// - Parameter log: The path of a file for the program's output.
    public init(_ command: [String], log: String) throws {
        // Close-on-exec, because no other process may keep the guardian's input open.
        var ends: [Int32] = [0, 0]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            throw Failure()
        }
        defer { close(ends[1]) }
        do {
            processID = try Self.spawn(command, input: nil, log: log)
            // Reads until the other end is closed, and then kills the program.
            let guardian = try Self.spawn(
                ["/bin/sh", "-c", "read line; kill -KILL \(processID)"], input: ends[1], log: "/dev/null")
            state = Mutex(State(guardian: guardian, line: ends[0]))
        } catch {
            close(ends[0])
            throw error
        }
    }

    deinit { kill() }

    public func signal(_ number: Int32) { _ = Glibc.kill(processID, number) }

    /// Stops the program. Returns once all of its threads have stopped, because the signal takes effect later on a busy
    /// machine.
    public func halt() {
        signal(SIGSTOP)
        var status: Int32 = 0
        while waitpid(processID, &status, WUNTRACED) < 0 && errno == EINTR {}
    }

    /// Kills the program, and waits for its end. Must be called only once.
    public func kill() {
        let (guardian, line) = state.withLock { state -> (pid_t?, Int32) in
            guard state.isRunning else { return (nil, -1) }
            state.isRunning = false
            return (state.guardian, state.line)
        }
        guard let guardian else { return }
        _ = Glibc.kill(guardian, SIGKILL)
        Self.wait(guardian)
        close(line)
        signal(SIGKILL)
        Self.wait(processID)
    }

    private static func wait(_ process: pid_t) {
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 && errno == EINTR {}
    }

    private static func spawn(_ command: [String], input: Int32?, log: String) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        if let input {
            posix_spawn_file_actions_adddup2(&actions, input, 0)
        } else {
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        let arguments: [UnsafeMutablePointer<CChar>?] = command.map { strdup($0) }
        let environment: [UnsafeMutablePointer<CChar>?] = [strdup("PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")]
        defer { for text in arguments + environment { free(text) } }
        var process: pid_t = 0
        guard posix_spawnp(&process, command[0], &actions, &attributes, arguments + [nil], environment + [nil]) == 0
        else { throw Failure() }
        return process
    }
}
