/// The question before a command executes the plan that it has shown.
enum PlanConfirmation {
    static let option = OptionSpecification("yes", nil, "executes the plan without asking")

    /// Returns if `--yes` was given or the user agrees.
    ///
    /// - Throws: as `Confirmation.require`.
    static func ask(_ arguments: ParsedArguments, _ console: Console) throws {
        try Confirmation.require(
            "Execute this plan?", "Add --yes to execute the plan without being asked.", arguments, console)
    }
}
