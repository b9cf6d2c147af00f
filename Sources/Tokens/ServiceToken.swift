/// The access token that a gateway issues to a service account: a JSON Web Token with an HMAC by a key that all gateways
/// of a database share. It names only the account's key; the gateway looks up the account's rights.
public struct ServiceToken: Sendable, Equatable {
    /// Distinguishes these tokens from custom tokens, which have no issuer.
    private static let issuer = "pathmirror-service-account"
    /// The longest lifetime in seconds.
    public static let maxLifeSeconds: Int64 = 3_600

    /// The id of the key that has signed the assertion.
    public let keyID: String
    /// Seconds since 1970.
    public let issuedAt: Int64
    public let expiresAt: Int64

    public init(keyID: String, issuedAt: Int64, expiresAt: Int64) {
        self.keyID = keyID
        self.issuedAt = issuedAt
        self.expiresAt = expiresAt
    }

    /// Returns whether a token claims to be an access token. It may be forged.
    public static func isClaimed(by token: JWT) -> Bool {
        token.algorithm == .hs256 && token.claims["iss"] == .string(issuer)
    }

    /// Verifies an access token.
    ///
    /// - Parameters:
    ///   - key: the key of the gateways.
    ///   - now: seconds since 1970.
    ///   - skew: maximum difference in seconds between the clocks of two gateways.
    /// - Throws: `badSignature`, `badClaim`, `expired`, `notYetValid`.
    public init(_ token: JWT, key: [UInt8], now: Int64, skew: Int64) throws(JWTError) {
        try token.verify(withSecret: key)
        guard let keyID = token.claims["sub"]?.string else { throw .badClaim("sub") }
        let times = try TokenTimes(token.claims, now: now, skew: skew, requiresExpiry: true)
        guard let issuedAt = times.issuedAt, let expiresAt = times.expiresAt else { throw .badClaim("iat") }
        guard expiresAt - issuedAt <= Self.maxLifeSeconds else { throw .badClaim("exp") }
        self.init(keyID: keyID, issuedAt: issuedAt, expiresAt: expiresAt)
    }

    /// Returns the token's text, signed with the key of the gateways.
    public func text(signedWith key: [UInt8]) -> String {
        JWT.mint(
            [
                "iss": .string(Self.issuer), "sub": .string(keyID), "iat": .integer(issuedAt),
                "exp": .integer(expiresAt),
            ], secret: key)
    }
}
