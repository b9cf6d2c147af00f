/// The times in a token, checked against a clock. All in seconds since 1970.
public struct TokenTimes: Sendable, Equatable {
    public let issuedAt: Int64?
    public let expiresAt: Int64?

    /// - Parameters:
    ///   - skew: by how much the issuer's clock and this one may differ.
    ///   - requiresExpiry: whether a token without `exp` is refused.
    ///   - lifeWithoutExpiry: the life of a token that has no `exp`, from `iat`, which it then needs.
    /// - Throws: `badClaim`, `expired`, `notYetValid`.
    public init(
        _ claims: Claims, now: Int64, skew: Int64, requiresExpiry: Bool = false, lifeWithoutExpiry: Int64? = nil
    ) throws(JWTError) {
        let issuedAt = try Self.time("iat", claims)
        var expiresAt = try Self.time("exp", claims)
        if expiresAt == nil, requiresExpiry { throw .badClaim("exp") }
        if expiresAt == nil, let life = lifeWithoutExpiry {
            guard let issuedAt else { throw .badClaim("iat") }
            expiresAt = issuedAt + life
        }
        // First whether it is over: that is what its owner can do something about.
        if let expiresAt, expiresAt + skew <= now { throw .expired(secondsAgo: now - expiresAt) }
        for name in ["iat", "nbf", "auth_time"] {
            if let time = try Self.time(name, claims), time > now + skew { throw .notYetValid(claim: name) }
        }
        self.issuedAt = issuedAt
        self.expiresAt = expiresAt
    }

    private static func time(_ name: String, _ claims: Claims) throws(JWTError) -> Int64? {
        guard let value = claims[name] else { return nil }
        guard let seconds = value.seconds else { throw .badClaim(name) }
        return seconds
    }
}
