import Rules
import Tree

/// Which of the records that a mirror's path finds it takes: an expression of the rules language. Pure; any thread.
///
/// `data` is the record, and the path's captures are variables (`$post_id`). Nothing else is known to it: a row must not
/// depend on the time or on what is elsewhere, as nobody would write it anew when that changes.
public struct RecordFilter: Sendable {
    /// The expression, as the definition has it.
    public let text: String
    /// Nil for a stored expression that does not compile any more.
    private let rules: RuleSet?
    private let pattern: PathPattern

    /// Ten times what a rule may take, as no client waits: about 250 MB of text gone over.
    private static let maxSteps = 1_000_000

    /// What is wrong with an expression, as a clause.
    struct Mistake: Error {
        let reason: String
    }

    /// - Throws: `Mistake` for what is no expression, or depends on more than the record and its keys.
    init(_ text: String, for pattern: PathPattern) throws(Mistake) {
        if let name = pattern.captures.first(where: { !RuleSet.isVariable($0) }) {
            throw Mistake(
                reason:
                    "a filter needs captures that it can name as variables: {\(name)} is not made of letters, digits and _, or begins with a digit"
            )
        }
        let rules: RuleSet
        do throws(RulesError) {
            rules = try RuleSet(.read, text, at: pattern, limits: RuleLimits(maxStepsPerRule: Self.maxSteps))
        } catch {
            // It is compiled as a rule that reads, of which its author knows nothing.
            let reason = error.problems.first?.message ?? "\(error)"
            throw Mistake(reason: reason.replacing("in .read expressions", with: "in filters"))
        }
        let names = rules.surroundings.map(\.rawValue).sorted()
        guard names.isEmpty else {
            throw Mistake(
                reason:
                    "names \(names.joined(separator: " and ")); a filter sees the record, as data, and its keys only")
        }
        self.rules = rules
        self.text = text
        self.pattern = pattern
    }

    /// A stored expression that does not compile any more. It admits no record; a mirror with it is not run.
    init(unusable text: String, for pattern: PathPattern) {
        rules = nil
        self.text = text
        self.pattern = pattern
    }

    /// Whether the record with these captured keys is one of the mirror's. An expression that fails, such as one that
    /// compares a text with a number, says no.
    func admits(_ record: Node, keys: [Key]) -> Bool {
        guard let rules else { return false }
        let path = pattern.path(of: keys)
        return rules.mayRead(
            path, query: QueryContext(nil), root: Node.null.replacing(path, with: record), auth: .unauthenticated,
            now: 0
        ).isAllowed
    }
}

extension RecordFilter: Equatable {
    /// The same expression; whether it is of the same path is the definitions' business.
    public static func == (first: RecordFilter, second: RecordFilter) -> Bool { first.text == second.text }
}
