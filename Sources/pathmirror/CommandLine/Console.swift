import Glibc
import Synchronization

/// What a command says to whoever started it, and hears from them.
struct Console: Sendable {
    /// Where results go.
    let output: Int32
    /// Where errors, questions and progress go.
    let errors: Int32
    /// Where answers, and files named `-`, come from.
    let input: Int32
    /// True when `errors` is a terminal whose lines can be replaced: progress then moves on one line.
    let isTerminal: Bool
    let signals: any Signals
    /// Whether the command is to stop.
    let interruption = Interruption()
    /// The columns that the environment says terminals have, which goes before what they say themselves.
    private let columns: Int?
    private let screen = Screen()

    /// - Parameter environment: `COLUMNS` and `TERM` are looked at.
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

    /// The columns of the terminal that results go to; nil where it is none.
    var outputWidth: Int? { width(of: output) }

    /// Whether results are read by somebody at a terminal.
    var showsResults: Bool { isatty(output) == 1 }

    private func width(of descriptor: Int32) -> Int? {
        guard isatty(descriptor) == 1 else { return nil }
        if let columns { return columns }
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// What a command throws in the place of `error`: where it was interrupted, what was done and how to go on.
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

    /// False when nobody reads any more.
    @discardableResult
    func writeBytes(_ bytes: [UInt8]) -> Bool {
        screen.writing(clearing: clearLine) {
            let isWritten = Self.writeBytes(bytes, to: output)
            if !isWritten { screen.note(failure: errno) }
            return isWritten
        }
    }

    /// Why results could not be written, if they could not.
    var outputFailure: String? { screen.failure.map { String(cString: strerror($0)) } }

    /// Whether that is because nobody reads them any more.
    var readerIsGone: Bool { screen.failure == EPIPE }

    /// Writes all of it to a descriptor. False, with the reason in `errno`, when that can't be done.
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

    /// Replaces the progress line on a terminal; the next result or error takes its place.
    func progressLine(_ text: String) {
        // One column stays free: some terminals begin a new line once the last one is written to.
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

    /// What is typed after a question on a terminal; nil where there is none.
    func answer(_ question: String) -> String? {
        guard isatty(input) == 1 else { return nil }
        Self.writeBytes(Array(question.utf8), to: errors)
        return String(decoding: readAnswer(), as: UTF8.self)
    }

    /// One line of the input; what there is of it where the command is to stop.
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

/// What a console remembers: whether a progress line stands on the terminal, and whether results were lost.
///
/// Threads take turns on it, as one may tell how long the other's work takes.
final class Screen: Sendable {
    /// Held while somebody writes: whether a progress line stands there.
    private let turn = Mutex(false)
    private let lost = Mutex<Int32?>(nil)

    /// The number of the first error of writing results.
    var failure: Int32? { lost.withLock { $0 } }

    func note(failure: Int32) { lost.withLock { if $0 == nil { $0 = failure } } }

    /// Writes what is to stay, in the place of the progress line where there is one.
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
            // There is nothing to clear where nothing stands.
            guard hasLine || !isEmpty else { return }
            hasLine = !isEmpty
            body()
        }
    }
}

/// Standard input, output and error.
enum StandardDescriptors {
    /// Takes the place of those that the program was started without, so that no file or connection gets their numbers and
    /// the results that go there. Reading and writing what has taken their place fails.
    static func fill() {
        for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(descriptor, F_GETFD) < 0 {
            // The lowest number that is free: this one.
            _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }
}
