public import Crypto

/// The signed statement of a service account with which it requests an access token (RFC 7523, sections 2.1 and 3), as
/// Google's libraries make it. Its content is not trustworthy until `verify` has returned.
public struct ServiceAssertion: Sendable {
    /// Maximum size in bytes. Assertions of Google's libraries have about 1,000.
    public static let maxBytes = 4_096
    /// The longest lifetime in seconds, the same as Google's.
    public static let maxLifeSeconds: Int64 = 3_600
    /// The audience that the libraries for Python and Java name, whatever the file's `token_uri` is.
    public static let googleAudience = "https://oauth2.googleapis.com/token"

    /// The id of the key that may have signed it.
    public let keyID: String
    private let token: JWT

    /// Parses an assertion, and believes nothing of it.
    ///
    /// - Throws: `tooLarge`, `malformed`, or `wrongAlgorithm`.
    public init(_ text: String) throws(JWTError) {
        guard text.utf8.count <= Self.maxBytes else { throw .tooLarge(bytes: text.utf8.count) }
        let token = try JWT(text)
        guard token.algorithm == .rs256 else { throw .wrongAlgorithm(token.algorithm.rawValue) }
        guard let keyID = token.keyID, (1...64).contains(keyID.utf8.count) else { throw .malformed("no key id") }
        self.token = token
        self.keyID = keyID
    }

    /// Throws `badSignature` unless the key has signed the assertion.
    public func verifySignature(_ key: RSAPublicKey) throws(JWTError) { try token.verify(with: key) }

    /// Checks the claims of an assertion whose signature was verified.
    ///
    /// - Parameters:
    ///   - issuer: the account's email address, the required `iss`.
    ///   - audience: the address of the token endpoint; `aud` is this or Google's.
    ///   - now: seconds since 1970.
    ///   - skew: maximum difference in seconds between the account's clock and this one.
    /// - Throws: `wrongIssuer`, `wrongAudience`, `badClaim`, `expired`, `notYetValid`.
    public func check(issuer: String, audience: String, now: Int64, skew: Int64) throws(JWTError) {
        let claims = token.claims
        guard claims["iss"] == .string(issuer) else { throw .wrongIssuer }
        // Google's accounts can act for a user, whom `sub` names. These accounts cannot.
        if let subject = claims["sub"], subject != .string(issuer) { throw .badClaim("sub") }
        guard claims["aud"] == .string(audience) || claims["aud"] == .string(Self.googleAudience) else {
            throw .wrongAudience
        }
        let times = try TokenTimes(claims, now: now, skew: skew, requiresExpiry: true)
        guard let issuedAt = times.issuedAt else { throw .badClaim("iat") }
        guard let end = times.expiresAt, end > issuedAt, end - issuedAt <= Self.maxLifeSeconds else {
            throw .badClaim("exp")
        }
    }
}
