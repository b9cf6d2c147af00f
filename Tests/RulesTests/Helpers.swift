import Rules
import Testing
import Tree

extension Path: ExpressibleByStringLiteral {
    /// Makes a path from `a/b`, to keep tests short.
    init(stringLiteral text: String) { self.init(splitting: text) }
}

/// Parses rules.
func rules(_ text: String, limits: RuleLimits = RuleLimits()) throws -> RuleSet {
    try RuleSet(json: Array(text.utf8), limits: limits)
}

/// Returns the upload's error in the protocol's format, or nil if it is accepted.
func uploadError(_ text: String) -> String? {
    do {
        _ = try RuleSet(json: Array(text.utf8))
        return nil
    } catch {
        return error.description
    }
}

/// Evaluates an expression on `data` at the path `p`.
func evaluates(
    _ expression: String, data: String = "null", auth: String = "null", limits: RuleLimits = RuleLimits()
) throws -> Bool {
    let escaped = expression.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
    let rules = try rules("{\"rules\": {\"p\": {\".read\": \"\(escaped)\"}}}", limits: limits)
    let root = Node.null.replacing(Path(splitting: "p"), with: try JSONParser.parse(data))
    let auth = AuthContext(auth: try JSONParser.parse(auth))
    return rules.mayRead(Path(splitting: "p"), query: nil, root: root, auth: auth, now: 1_700_000_000_000)
        .isAllowed
}
