import Rules
import Tree

/// A feed's filter: an expression of the rules language that says of a change whether it becomes a message. Pure; any thread.
///
/// `data` is the record before the change and `newData` the record after it; the pattern's captures are variables (`$order_id`), `root` and
/// `now` are as in rules. An expression that fails, such as one that compares a text with a number, says no.
public struct FeedFilter: Sendable {
    /// The expression, as the definition has it.
    public let text: String
    private let rules: RuleSet
    /// The expression is compiled for this pattern.
    private let pattern: PathPattern

    init(_ text: String, for pattern: PathPattern) throws(RulesError) {
        rules = try RuleSet(.write, text, at: pattern)
        self.text = text
        self.pattern = pattern
    }

    /// Whether it names `auth`. Nobody is there when a filter is evaluated, so that it would always be null.
    var asksWhoWrites: Bool { rules.surroundings.contains(.auth) }

    /// Whether the change of the record at a path becomes a message.
    ///
    /// - Parameter now: when the change was committed, in milliseconds since 1970: what a filter says must not depend on when it is asked.
    func admits(_ path: Path, before: Node, after: Node, now: Int64) -> Bool {
        rules.mayWrite(
            CollectionOfOne(path), root: before, newRoot: after, auth: .unauthenticated, now: now
        ).isAllowed
    }
}

extension FeedFilter: Equatable {
    /// Compares the expressions and the patterns.
    public static func == (first: FeedFilter, second: FeedFilter) -> Bool {
        first.text == second.text && first.pattern == second.pattern
    }
}
