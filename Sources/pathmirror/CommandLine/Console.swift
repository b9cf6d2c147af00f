import Glibc

/// What a command says to whoever started it.
struct Console {
    /// True when standard error is a terminal: progress then moves on one line.
    let isTerminal = isatty(STDERR_FILENO) == 1

    func write(_ text: String, toError: Bool = false) {
        writeBytes(Array((text + "\n").utf8), to: toError ? STDERR_FILENO : STDOUT_FILENO)
    }

    func error(_ text: String) { write(text, toError: true) }

    /// False when nobody reads any more.
    @discardableResult
    func writeBytes(_ bytes: [UInt8], to descriptor: Int32 = STDOUT_FILENO) -> Bool {
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
        writeBytes(Array("\r\u{1B}[K\(text)".utf8), to: STDERR_FILENO)
    }

    /// Asks a question on a terminal; false for anything but yes.
    func confirms(_ question: String) -> Bool {
        guard isatty(STDIN_FILENO) == 1 else { return false }
        writeBytes(Array("\(question) [y/N] ".utf8), to: STDERR_FILENO)
        return readLine()?.lowercased().hasPrefix("y") ?? false
    }
}
