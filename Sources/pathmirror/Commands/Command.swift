/// A command of the program.
protocol Command {
    static var specification: CommandSpecification { get }
    /// The exit code after a failure. Usually 1; another number if 1 has a meaning of its own.
    static var failureCode: Int32 { get }
    /// The message after an interruption, if the command has not printed one itself.
    static var whenInterrupted: String { get }
    /// Whether the command runs until it is asked to end, and waits for the signal itself.
    static var waitsForSignals: Bool { get }
    /// - Throws: `CommandFailure` or any error whose description states the failure; `CommandEnd` to end with another exit code.
    static func run(_ arguments: ParsedArguments, _ console: Console) throws
}

extension Command {
    static var failureCode: Int32 { 1 }
    static var whenInterrupted: String { "Nothing was changed." }
    static var waitsForSignals: Bool { false }
}

/// Ends a command with an exit code of its own.
struct CommandEnd: Error {
    let exitCode: Int32
    /// The message on standard error, if any.
    let message: String?

    init(_ exitCode: Int32, _ message: String? = nil) {
        self.exitCode = exitCode
        self.message = message
    }
}

/// A failure that ends a command, described in one sentence.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A mistake in the program's arguments.
struct UsageError: Error {
    let message: String
    init(_ message: String) { self.message = message }
}
