import Rules
import Tree

/// Checks a caller's writes against the rules by their paths alone, before the values are parsed. Any thread.
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

    /// Returns false if the rules refuse a write at this path regardless of the written and the stored values. In that
    /// case the gateway need not read either.
    func mayBeGiven(at path: Path, _ reach: RuleSet.Reach = .path) -> Bool {
        rules.refusal(of: path, reach, auth: auth, now: now) == nil
    }

    /// Returns whether the rules may permit an update with all its paths, regardless of values.
    func mayBeGiven(to changes: [Change]) -> Bool {
        rules.refusal(of: changes.lazy.map(\.path), auth: auth, now: now) == nil
    }

    func mayBeGiven(to changes: [Change], root: Node) -> Bool {
        rules.refusal(of: changes.lazy.map(\.path), root: root, auth: auth, now: now) == nil
    }

    /// Returns whether the rules may permit a write at this path in the given tree. Writes in flight may still change
    /// the result.
    func mayBeGiven(at path: Path, _ reach: RuleSet.Reach = .path, root: Node) -> Bool {
        rules.refusal(of: path, reach, root: root, auth: auth, now: now) == nil
    }
}
