/// A command of the program.
protocol Command {
    static var specification: CommandSpecification { get }
    /// The exit code where it fails; 1, but where that means something else.
    static var failureCode: Int32 { get }
    /// What is said where it is interrupted and has said nothing itself.
    static var whenInterrupted: String { get }
    /// Whether it runs until it is told to end, and waits for that itself.
    static var waitsForSignals: Bool { get }
    /// - Throws: `CommandFailure` or any error that says in its description what went wrong; `CommandEnd` to end with another exit code.
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
    /// What is said on standard error, if anything.
    let message: String?

    init(_ exitCode: Int32, _ message: String? = nil) {
        self.exitCode = exitCode
        self.message = message
    }
}

/// Something that ends a command, said in one sentence.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A mistake in how the program was called.
struct UsageError: Error {
    let message: String
    init(_ message: String) { self.message = message }
}
