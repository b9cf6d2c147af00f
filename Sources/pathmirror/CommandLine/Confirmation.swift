/// The question of a command that has shown the data that it deletes or delivers again.
enum Confirmation {
    static let option = OptionSpecification("yes", nil, "doesn't ask")

    /// Returns after `--yes` or a yes on a terminal.
    ///
    /// - Parameter advice: the message after "Nothing was changed.", with the next step for use without a terminal.
    /// - Throws: `CommandFailure` after another answer, and without a terminal; `CommandEnd` if the command is interrupted.
    static func require(
        _ question: String, _ advice: @autoclosure () -> String, _ arguments: ParsedArguments, _ console: Console
    ) throws {
        guard !arguments.has("yes"), !console.confirms(question) else { return }
        let unchanged = "Nothing was changed."
        throw console.ending(CommandFailure("\(unchanged) \(advice())"), unchanged)
    }
}
