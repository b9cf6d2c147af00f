import Rules
import Tree

/// What the rules say to a caller's writes before anything of them is looked at but where they go. Any thread.
struct WritePermission: Sendable {
    private let rules: RuleSet
    private let auth: AuthContext
    private let now: Int64

    /// - Parameter now: milliseconds since 1970.
    init(_ rules: RuleSet, _ auth: AuthContext, now: Int64) {
        self.rules = rules
        self.auth = auth
        self.now = now
    }

    /// Whether a write here may be let in; false where it is refused whatever is written and whatever is stored, so that
    /// nobody has to look at either.
    func mayBeGiven(at path: Path, _ reach: RuleSet.Reach = .path) -> Bool {
        rules.refusal(of: path, reach, auth: auth, now: now) == nil
    }

    /// The same for all places of an update.
    func mayBeGiven(to changes: [Change]) -> Bool {
        rules.refusal(of: changes.lazy.map(\.path), auth: auth, now: now) == nil
    }

    func mayBeGiven(to changes: [Change], root: Node) -> Bool {
        rules.refusal(of: changes.lazy.map(\.path), root: root, auth: auth, now: now) == nil
    }

    /// Whether a write here may be let in as the tree is now. Where writes are under way that is not the last word.
    func mayBeGiven(at path: Path, _ reach: RuleSet.Reach = .path, root: Node) -> Bool {
        rules.refusal(of: path, reach, root: root, auth: auth, now: now) == nil
    }
}
