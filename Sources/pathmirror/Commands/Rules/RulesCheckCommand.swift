import Rules

struct RulesCheckCommand: Command {
    static let specification = CommandSpecification(
        "rules check", "checks a rules file; exits 1 if it has mistakes", positionals: ["FILE|-"], options: [.json])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let file = arguments.positionals[0]
        let text = try Files.read(file, standardInput: console.input)
        guard arguments.has("json") else {
            _ = try RulesText.compile(text, file, console)
            return console.write("\(file) is valid")
        }
        var errors: [RulesError.Problem] = []
        var warnings: [RulesError.Problem] = []
        do throws(RulesError) {
            warnings = try RuleSet(json: text, keepsWarnings: true).warnings
        } catch {
            errors = error.problems
        }
        console.write(
            JSONOutput.object([
                "valid": .bool(errors.isEmpty), "errors": RulesText.json(errors), "warnings": RulesText.json(warnings),
            ]).line)
        guard errors.isEmpty else { throw CommandFailure("\(file) has \(Counted.text(errors.count, "mistake")).") }
    }
}
