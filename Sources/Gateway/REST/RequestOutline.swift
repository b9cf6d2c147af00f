import Rules
import Runtime
import Tree
import Wire

/// What rules look at of a request before the data is there: who asks for what, and where.
struct RequestOutline: Sendable {
    private let method: Call.Method
    private let path: Path
    private let pushedName: String?
    private let query: QueryContext
    private let auth: AuthContext

    /// - Parameter pushedName: A name for the child that a POST would make; nil where that is not known yet.
    init(_ call: Call, pushedName: String? = nil) {
        method = call.method
        path = call.path
        self.pushedName = pushedName
        query = .overREST(call.parameters.query)
        auth = call.auth
    }

    /// Whether there may be data with which rules would let the request in; false where they refuse it whatever is stored.
    func mayBeAnswered(by rules: RuleSet) -> Bool {
        let now = Clock.unixMilliseconds
        switch method {
        case .get: return rules.mayEverRead(path, query: query, auth: auth, now: now)
        case .put, .delete: return rules.refusal(of: path, .path, auth: auth, now: now) == nil
        case .post:
            guard let pushedName else { return rules.refusal(of: path, .pathAndBelow, auth: auth, now: now) == nil }
            return rules.refusal(of: path.appending(Key(pushedName)), .path, auth: auth, now: now) == nil
        case .patch: return rules.refusal(of: path, .pathAndBelow, auth: auth, now: now) == nil
        }
    }
}
