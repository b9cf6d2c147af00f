/// The question before a command executes the plan that it has shown.
enum PlanConfirmation {
    static let option = OptionSpecification("yes", nil, "executes the plan without asking")

    /// Returns if `--yes` was given or the user agrees.
    ///
    /// - Throws: `CommandFailure` if the user does not agree, or if the input is no terminal.
    static func ask(_ arguments: ParsedArguments, _ console: Console) throws {
        guard !arguments.has("yes"), !console.confirms("Execute this plan?") else { return }
        throw CommandFailure("Nothing was changed. Add --yes to execute the plan without being asked.")
    }
}
