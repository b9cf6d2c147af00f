import Glibc
import Runtime
import Synchronization
import TestSupport
import Testing

@testable import pathmirror

/// The result of a command that was run inside the test program.
struct CommandRun {
    let exitCode: Int32
    let output: String
    let errors: String

    /// The lines of the output.
    var lines: [String] { output.split(separator: "\n").map(String.init) }

    /// The JSON values that `--json` printed, one a line.
    func json() throws -> [JSONText] { try lines.map { try JSONText(reading: $0) } }
}

/// Runs the program with these arguments, its environment empty but for `environment`.
func pathmirror(
    _ arguments: [String], input: String = "", environment: [String: String] = [:],
    signals: any Signals = ScriptedSignals()
) throws -> CommandRun {
    let descriptors = try Descriptors(input: Array(input.utf8))
    let exitCode = Commands.run(arguments, descriptors.console(signals), Environment(values: environment))
    return CommandRun(exitCode: exitCode, output: descriptors.output.text, errors: descriptors.errors.text)
}

/// The three standard descriptors of a program, as files of a test.
struct Descriptors {
    let input: ScratchFile
    let output: ScratchFile
    let errors: ScratchFile

    init(input: [UInt8] = []) throws {
        self.input = try ScratchFile(input)
        output = try ScratchFile()
        errors = try ScratchFile()
    }

    func console(_ signals: any Signals = ScriptedSignals()) -> Console {
        Console(
            output: output.descriptor, errors: errors.descriptor, input: input.descriptor, signals: signals)
    }
}

/// An open file without a name.
final class ScratchFile: Sendable {
    let descriptor: Int32

    /// - Parameter content: can be read from the beginning.
    init(_ content: [UInt8] = []) throws {
        var template = Array("/tmp/pathmirror-scratch-XXXXXX".utf8CString)
        descriptor = mkstemp(&template)
        try #require(descriptor >= 0)
        unlink(template)
        Console.writeBytes(content, to: descriptor)
        lseek(descriptor, 0, SEEK_SET)
    }

    deinit { close(descriptor) }

    /// All bytes written so far.
    var bytes: [UInt8] {
        var all: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while case let count = pread(descriptor, &piece, piece.count, all.count), count > 0 { all += piece[..<count] }
        return all
    }

    var text: String { String(decoding: bytes, as: UTF8.self) }
}

/// Signals whose arrival a test controls.
final class ScriptedSignals: Signals {
    private let wantsEnd: @Sendable () -> Bool
    private let hangups: Mutex<Int>
    private let watcher = Mutex<Interruption?>(nil)

    /// - Parameters:
    ///   - hangups: the number of SIGHUPs before the end.
    ///   - wantsEnd: called repeatedly; returns whether the command should end.
    init(hangups: Int = 0, _ wantsEnd: @escaping @Sendable () -> Bool = { true }) {
        self.hangups = Mutex(hangups)
        self.wantsEnd = wantsEnd
    }

    /// The interruption that signals would notify; nil for a command that waits for signals itself.
    var interruption: Interruption? { watcher.withLock { $0 } }

    func interrupt(by interruption: Interruption) { watcher.withLock { $0 = interruption } }

    func waitForTermination(onHangup: () -> Void) {
        while hangups.withLock({ $0 > 0 }) {
            hangups.withLock { $0 -= 1 }
            onHangup()
        }
        while !wantsEnd() { usleep(1_000) }
    }

    func isTerminationWanted(milliseconds: Milliseconds) -> Bool {
        if wantsEnd() { return true }
        usleep(UInt32(min(milliseconds, 5)) * 1_000)
        return false
    }
}

/// A folder of one test, removed with the object.
final class ScratchFolder {
    let path = TemporaryFolder.path("cli")

    init() throws { try #require(mkdir(path, 0o700) == 0) }

    deinit { TemporaryFolder.remove(path) }

    /// Writes a file and returns its path.
    @discardableResult
    func file(_ name: String, _ text: String, mode: mode_t = 0o600) throws -> String {
        try file(name, Array(text.utf8), mode: mode)
    }

    @discardableResult
    func file(_ name: String, _ bytes: [UInt8], mode: mode_t = 0o600) throws -> String {
        let file = path + "/" + name
        let descriptor = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        Console.writeBytes(bytes, to: descriptor)
        // The mode is independent of the process's umask.
        fchmod(descriptor, mode)
        return file
    }

    func read(_ name: String) throws -> String {
        String(decoding: try Files.read(path + "/" + name), as: UTF8.self)
    }

    func exists(_ name: String) -> Bool { access(path + "/" + name, F_OK) == 0 }

    /// The names of its files, sorted.
    var names: [String] { TemporaryFolder.names(in: path).sorted() }
}

/// A clock that a test advances.
final class ManualClock: Sendable {
    private let milliseconds: Mutex<Int64>
    private let pauses = Mutex<[Int64]>([])

    init(_ start: Int64 = 1_000_000) { milliseconds = Mutex(start) }

    func advance(_ count: Int64) { milliseconds.withLock { $0 += count } }

    /// The requested pauses; each has advanced the clock.
    var allPauses: [Int64] { pauses.withLock { $0 } }

    var clock: ProgressClock {
        ProgressClock(
            now: { self.milliseconds.withLock { $0 } },
            pause: { count in
                self.pauses.withLock { $0.append(count) }
                self.advance(count)
            })
    }
}
