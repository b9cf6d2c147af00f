public import Tree

/// Who asks: the `auth` variable, and whether rules apply at all.
public struct AuthContext: Sendable {
    /// `uid`, `token` with all claims, `provider`; `.null` when signed out.
    public let auth: Node
    /// Administrators are not judged.
    public let isAdmin: Bool
    /// Whether the caller is known not to be on the gateway's machine. Of rules only `RuleSet.allowThisMachine` asks.
    public let isElsewhere: Bool

    public init(auth: Node, isAdmin: Bool = false, isElsewhere: Bool = false) {
        self.auth = auth
        self.isAdmin = isAdmin
        self.isElsewhere = isElsewhere
    }

    public static let unauthenticated = AuthContext(auth: .null)
    public static let admin = AuthContext(auth: .null, isAdmin: true)
}
