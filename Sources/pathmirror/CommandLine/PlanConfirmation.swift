/// The question before a command executes the plan that it has shown.
enum PlanConfirmation {
    static let option = OptionSpecification("yes", nil, "carries the plan out without asking")

    /// Returns if `--yes` was given or the user agrees.
    ///
    /// - Throws: `CommandFailure` if the user does not agree, or if the input is no terminal.
    static func ask(_ arguments: ParsedArguments, _ console: Console) throws {
        guard !arguments.has("yes"), !console.confirms("Carry this out?") else { return }
        throw CommandFailure("Nothing was changed. Give --yes to carry the plan out without being asked.")
    }
}
