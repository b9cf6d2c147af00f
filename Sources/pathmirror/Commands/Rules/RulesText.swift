import Rules
import Tree

/// What the `rules` commands have in common.
enum RulesText {
    static let namespace = OptionSpecification("ns", "NAME", "the namespace; default \"default\"")

    /// Compiles a text; tells what may be a mistake on standard error.
    static func compile(_ text: [UInt8], _ name: String, _ console: Console) throws -> RuleSet {
        do throws(RulesError) {
            let rules = try RuleSet(json: text, keepsWarnings: true)
            for warning in rules.warnings { console.error("\(name):\(warning) (warning)") }
            return rules
        } catch {
            throw CommandFailure(error.problems.map { "\(name):\($0)" }.joined(separator: "\n"))
        }
    }

    static func json(_ problems: [RulesError.Problem]) -> JSONOutput {
        .list(
            problems.map { problem in
                .object([
                    "line": .number(Int64(problem.line)), "column": .number(Int64(problem.column)),
                    "message": .text(problem.message),
                ])
            })
    }

    /// Whoever may run commands on the database may do everything.
    static let origin = Origin(uid: nil, isAdmin: true, via: .cli, address: nil)
}
