import Rules
import Testing
import Tree

extension Path: ExpressibleByStringLiteral {
    /// `a/b`, for short tests.
    init(stringLiteral text: String) { self.init(splitting: text) }
}

/// Rules out of a text.
func rules(_ text: String, limits: RuleLimits = RuleLimits()) throws -> RuleSet {
    try RuleSet(json: Array(text.utf8), limits: limits)
}

/// The upload's error as the protocol carries it, or nil when it is accepted.
func uploadError(_ text: String) -> String? {
    do {
        _ = try RuleSet(json: Array(text.utf8))
        return nil
    } catch {
        return error.description
    }
}

/// What `data` (at the path `p`) makes of an expression.
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
