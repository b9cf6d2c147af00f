import PostgresCluster

/// Completes commands that a message suggests, so that they can be pasted: a suggestion repeats the `--ns` and `--data` of the command
/// that printed it.
///
/// A suggestion is `'pathmirror COMMAND …'`, or `pathmirror COMMAND …` without quotation marks.
enum SuggestedCommands {
    /// Options that select the data of a command, and hold no secret.
    private static let repeated = ["ns", "data"]
    private static let program = "pathmirror "

    /// - Parameters:
    ///   - text: the message.
    ///   - arguments: those of the command that prints it. Options of the environment or a file apply to the next command as well, and are
    ///     not repeated.
    static func completed(_ text: String, _ arguments: ParsedArguments) -> String {
        let given = repeated.filter { arguments.source($0) == .commandLine }
            .compactMap { name in arguments[name].map { (name: name, text: " --\(name) \(shellQuoted($0))") } }
        guard !given.isEmpty else { return text }
        var result = ""
        var rest = text[...]
        while let found = rest.firstRange(of: program) {
            let before = rest[..<found.lowerBound]
            let isQuoted = before.last == "'"
            result += "\(before)\(program)"
            rest = rest[found.upperBound...]
            guard isQuoted || before.last?.isWhitespace ?? true else { continue }
            let suggestion = rest.prefix { $0 != "\n" && !(isQuoted && $0 == "'") }
            guard let command = command(suggestion) else { continue }
            let missing = given.filter { option in
                command.option(named: option.name) != nil && !suggestion.contains("--\(option.name) ")
            }
            // The end of a suggestion without quotation marks is unknown.
            let words = isQuoted ? suggestion : suggestion.prefix(command.name.count)
            result += "\(words)\(missing.map(\.text).joined())"
            rest = rest[words.endIndex...]
        }
        return result + rest
    }

    /// The command that a suggestion names. Nil for gateways and for help, which are no next step.
    private static func command(_ suggestion: Substring) -> CommandSpecification? {
        let words = suggestion.split(separator: " ").map(String.init)
        guard !words.contains("--help") else { return nil }
        return Commands.all.first { command in
            !command.waitsForSignals && words.starts(with: command.specification.words)
        }?.specification
    }
}

extension ParsedArguments {
    /// Returns the message, whose suggested commands repeat the options of this command.
    func completing(_ message: String) -> String { SuggestedCommands.completed(message, self) }
}
