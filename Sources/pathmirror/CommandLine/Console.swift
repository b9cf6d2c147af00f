import Glibc
import Synchronization

/// The descriptors through which a command talks to its user.
struct Console: Sendable {
    /// The descriptor for results.
    let output: Int32
    /// The descriptor for errors, questions and progress.
    let errors: Int32
    /// The descriptor for answers, and for files named `-`.
    let input: Int32
    /// True when `errors` is a terminal whose lines can be replaced: progress then moves on one line.
    let isTerminal: Bool
    let signals: any Signals
    /// Signals that ask the command to stop.
    let interruption = Interruption()
    /// The width of `COLUMNS`, which overrides the terminal's own.
    private let columns: Int?
    private let screen = Screen()

    /// - Parameter environment: read for `COLUMNS` and `TERM`.
    init(
        output: Int32 = STDOUT_FILENO, errors: Int32 = STDERR_FILENO, input: Int32 = STDIN_FILENO,
        signals: any Signals = ProcessSignals(), environment: Environment = Environment(values: [:])
    ) {
        self.output = output
        self.errors = errors
        self.input = input
        self.signals = signals
        isTerminal = isatty(errors) == 1 && environment["TERM"] != "dumb"
        columns = environment["COLUMNS"].flatMap { Int($0) }.flatMap { $0 > 0 ? $0 : nil }
    }

    /// The columns of the terminal that shows results; nil if results don't go to a terminal.
    var outputWidth: Int? { width(of: output) }

    /// Whether results go to a terminal.
    var showsResults: Bool { isatty(output) == 1 }

    private func width(of descriptor: Int32) -> Int? {
        guard isatty(descriptor) == 1 else { return nil }
        if let columns { return columns }
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// Returns the error that an interrupted command throws instead of `error`, with a note of the finished work and the next step.
    /// Returns `error` if the command was not interrupted.
    func ending(_ error: any Error, _ note: @autoclosure () -> String) -> any Error {
        guard let signal = interruption.signal, !(error is CommandEnd) else { return error }
        return CommandEnd(Interruption.exitCode(signal), "interrupted. \(note())")
    }

    func write(_ text: String, toError: Bool = false) {
        let bytes = Array((text + "\n").utf8)
        guard toError else {
            writeBytes(bytes)
            return
        }
        screen.writing(clearing: clearLine) { _ = Self.writeBytes(bytes, to: errors) }
    }

    func error(_ text: String) { write(text, toError: true) }

    /// Writes bytes of results. Returns false if that fails.
    @discardableResult
    func writeBytes(_ bytes: [UInt8]) -> Bool {
        screen.writing(clearing: clearLine) {
            let isWritten = Self.writeBytes(bytes, to: output)
            if !isWritten { screen.note(failure: errno) }
            return isWritten
        }
    }

    /// The reason that results could not be written; nil if there was no error.
    var outputFailure: String? { screen.failure.map { String(cString: strerror($0)) } }

    /// Whether results were lost because the reader closed the pipe.
    var readerIsGone: Bool { screen.failure == EPIPE }

    /// Writes all of the bytes to a descriptor. Returns false, with the reason in `errno`, on failure.
    @discardableResult
    static func writeBytes(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    /// Replaces the progress line on a terminal; the next result or error replaces it.
    func progressLine(_ text: String) {
        // One column stays free: some terminals begin a new line after a write to the last one.
        let shown = width(of: errors).map { TextWidth.fitted(text, to: max(1, $0 - 1)) } ?? text
        screen.replaceLine(isEmpty: shown.isEmpty) {
            Self.writeBytes(Array("\(Self.lineBeginning)\(shown)".utf8), to: errors)
        }
    }

    private static let lineBeginning = "\r\u{1B}[K"

    private func clearLine() { Self.writeBytes(Array(Self.lineBeginning.utf8), to: errors) }

    /// Asks a question on a terminal; false for anything but yes.
    func confirms(_ question: String) -> Bool {
        guard isatty(input) == 1 else { return false }
        Self.writeBytes(Array("\(question) [y/N] ".utf8), to: errors)
        return readAnswer().first.map { $0 == UInt8(ascii: "y") || $0 == UInt8(ascii: "Y") } ?? false
    }

    /// Returns the line typed after a question on a terminal; nil without a terminal.
    func answer(_ question: String) -> String? {
        guard isatty(input) == 1 else { return nil }
        Self.writeBytes(Array(question.utf8), to: errors)
        return String(decoding: readAnswer(), as: UTF8.self)
    }

    /// Reads one line of the input. Returns the part read so far if the command is to stop.
    private func readAnswer() -> [UInt8] {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while true {
            var waiting = pollfd(fd: input, events: Int16(POLLIN), revents: 0)
            while poll(&waiting, 1, 100) == 0 { if interruption.signal != nil { return [] } }
            let count = read(input, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1, byte != 0x0A else { return line }
            line.append(byte)
        }
    }
}

/// The state of a console: whether a progress line is on the terminal, and whether results were lost.
///
/// Threads take turns, because one may report the time that another one's work takes.
final class Screen: Sendable {
    /// Held during writes. True while a progress line is on the terminal.
    private let turn = Mutex(false)
    private let lost = Mutex<Int32?>(nil)

    /// The `errno` of the first error of writing results.
    var failure: Int32? { lost.withLock { $0 } }

    func note(failure: Int32) { lost.withLock { if $0 == nil { $0 = failure } } }

    /// Runs a write of permanent text, which replaces the progress line if there is one.
    func writing<Result>(clearing clear: () -> Void, _ body: () -> Result) -> Result {
        turn.withLock { hasLine in
            if hasLine { clear() }
            hasLine = false
            return body()
        }
    }

    /// Writes another progress line.
    func replaceLine(isEmpty: Bool, _ body: () -> Void) {
        turn.withLock { hasLine in
            // There is no line to clear.
            guard hasLine || !isEmpty else { return }
            hasLine = !isEmpty
            body()
        }
    }
}

/// Standard input, output and error.
enum StandardDescriptors {
    /// Opens /dev/null for those that the program was started without, so that no file or connection gets their numbers and the results
    /// written to them. Reads and writes of these descriptors fail.
    static func fill() {
        for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(descriptor, F_GETFD) < 0 {
            // `open` returns the lowest free number, which is this one.
            _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }
}
