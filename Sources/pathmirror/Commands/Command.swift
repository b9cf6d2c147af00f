/// A command of the program.
protocol Command {
    static var specification: CommandSpecification { get }
    /// - Throws: `CommandFailure` or any error that says in its description what went wrong.
    static func run(_ arguments: ParsedArguments, _ console: Console) throws
}
