public import Tree

/// Who asks: the `auth` variable, and whether rules apply at all.
public struct AuthContext: Sendable {
    /// `uid`, `token` with all claims, `provider`; `.null` when signed out.
    public let auth: Node
    /// Administrators are not judged.
    public let isAdmin: Bool

    public init(auth: Node, isAdmin: Bool = false) {
        self.auth = auth
        self.isAdmin = isAdmin
    }

    public static let unauthenticated = AuthContext(auth: .null)
    public static let admin = AuthContext(auth: .null, isAdmin: true)
}
