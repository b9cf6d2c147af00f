import Feeds
import Rules
import Runtime
import Tokens
import Tree

/// Checks tokens that were signed with a secret: Firebase's legacy custom tokens, and those of `token mint`, which have
/// the same form (reference: rtdb-protocol 10.2).
struct CustomTokens: Sendable {
    static let lifeSeconds: Int64 = 24 * 3_600
    static let maxDataBytes = 1_024

    let skewSeconds: Int64

    func identity(
        of token: JWT, _ secrets: SecretStore, namespace: String, now: Int64
    ) throws(AuthFailure) -> Identity {
        let basis = try signer(of: token, secrets, namespace)
        let claims = token.claims
        guard claims["v"] == .integer(0) else { throw .unparsable(reason: "the claim 'v' is not 0") }
        let times: TokenTimes
        let feed: FeedBinding?
        do throws(JWTError) {
            times = try TokenTimes(claims, now: now / 1_000, skew: skewSeconds, lifeWithoutExpiry: Self.lifeSeconds)
            guard times.issuedAt != nil else { throw .badClaim("iat") }
            feed = try FeedBinding(claims)
        } catch {
            throw AuthFailure(error)
        }
        let expiresAt = times.expiresAt.map { ($0 + skewSeconds) * 1_000 }
        if let feed {
            // A token without a feed id applies to a feed that existed when the token was issued.
            let access = feed.id.map { FeedAccess.id($0) } ?? .since((times.issuedAt ?? 0) + skewSeconds)
            let grant = FeedGrant(feed: feed, access: access)
            return Identity(.unauthenticated, expiresAt: expiresAt, basis: basis, feed: grant)
        }
        if claims["admin"] == .bool(true) {
            return Identity(.admin, power: power(claims, basis), expiresAt: expiresAt, basis: basis)
        }
        return Identity(AuthContext(auth: try data(claims)), expiresAt: expiresAt, basis: basis)
    }

    private func signer(
        of token: JWT, _ secrets: SecretStore, _ namespace: String
    ) throws(AuthFailure) -> Identity.Basis {
        for item in secrets.database(namespace) where verifies(token, item) {
            return .databaseSecret(item.id, namespace: namespace)
        }
        for item in secrets.administrators where verifies(token, item) { return .administratorSecret(item.id) }
        throw .unparsable(reason: "\(JWTError.badSignature)")
    }

    private func verifies(_ token: JWT, _ item: SecretStore.Item) -> Bool {
        (try? token.verify(withSecret: item.secret.revealed())) != nil
    }

    /// Returns the power of an administrator's token: its secret's, or less if the token's scope limits it.
    private func power(_ claims: Claims, _ basis: Identity.Basis) -> Identity.Power {
        if claims["scope"] == .string("data") { return .data }
        if case .administratorSecret = basis { return .everything }
        return .namespace
    }

    private func data(_ claims: Claims) throws(AuthFailure) -> Node {
        guard let data = claims["d"]?.object, ClaimsWriter.encode(data).count <= Self.maxDataBytes else {
            throw .unparsable(reason: "the claim 'd' is not an object of at most \(Self.maxDataBytes) bytes")
        }
        guard let uid = data["uid"]?.string, (1...IDTokens.maxUIDBytes).contains(uid.utf8.count) else {
            throw .unparsable(reason: "the claim 'd' has no uid")
        }
        return Node(data)
    }
}
