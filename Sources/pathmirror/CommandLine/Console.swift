import Glibc

/// What a command says to whoever started it, and hears from them.
struct Console {
    /// Where results go.
    let output: Int32
    /// Where errors, questions and progress go.
    let errors: Int32
    /// Where answers, and files named `-`, come from.
    let input: Int32
    /// True when `errors` is a terminal: progress then moves on one line.
    let isTerminal: Bool
    let signals: any Signals
    /// Whether the command is to stop.
    let interruption = Interruption()

    init(
        output: Int32 = STDOUT_FILENO, errors: Int32 = STDERR_FILENO, input: Int32 = STDIN_FILENO,
        signals: any Signals = ProcessSignals()
    ) {
        self.output = output
        self.errors = errors
        self.input = input
        self.signals = signals
        isTerminal = isatty(errors) == 1
    }

    /// The columns of the terminal that results go to; nil where it is none.
    var outputWidth: Int? {
        var size = winsize()
        guard isatty(output) == 1, ioctl(output, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// What a command throws in the place of `error`: where it was interrupted, what was done and how to go on.
    func ending(_ error: any Error, _ note: @autoclosure () -> String) -> any Error {
        guard let signal = interruption.signal, !(error is CommandEnd) else { return error }
        return CommandEnd(Interruption.exitCode(signal), "interrupted. \(note())")
    }

    func write(_ text: String, toError: Bool = false) {
        Self.writeBytes(Array((text + "\n").utf8), to: toError ? errors : output)
    }

    func error(_ text: String) { write(text, toError: true) }

    /// False when nobody reads any more.
    @discardableResult
    func writeBytes(_ bytes: [UInt8]) -> Bool { Self.writeBytes(bytes, to: output) }

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

    /// Replaces the progress line on a terminal.
    func progressLine(_ text: String) {
        Self.writeBytes(Array("\r\u{1B}[K\(text)".utf8), to: errors)
    }

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
