import Crypto
import LogStore
import Rules
import Runtime
import Tokens

/// The keys of service accounts, and the access tokens that the gateway issues for them. A value; pure.
struct ServiceAccountKeys: Sendable {
    struct Key: Sendable {
        let publicKey: RSAPublicKey
        let grant: ServiceAccountGrant
        let email: String
        /// The address of the token endpoint in the account's file.
        let tokenURI: String
        /// The time from which the key is invalid, in milliseconds since 1970; nil for no end.
        let endsAt: Int64?
    }

    /// An issued access token.
    struct Issued: Sendable {
        let text: String
        let lifeSeconds: Int64
        let account: String
    }

    /// The reason why an assertion is refused.
    enum Refusal: Error, Sendable, Equatable {
        /// No account's key is known to have signed it. The reason is for the log, never for the caller.
        case notSigned(reason: String)
        /// It is signed, but another claim is wrong, which the key's owner may know.
        case invalid(account: String, JWTError)
    }

    private let tokenKey: Secret<[UInt8]>
    private let keys: [String: Key]

    /// Stored keys that libcrypto rejects are left out.
    init(_ accounts: ServiceAccounts) {
        tokenKey = accounts.tokenKey
        var keys: [String: Key] = [:]
        for record in accounts.records {
            for key in record.keys {
                guard let publicKey = try? RSAPublicKey(der: key.publicKey) else { continue }
                keys[key.id] = Key(
                    publicKey: publicKey, grant: record.grant, email: record.email, tokenURI: record.tokenURI,
                    endsAt: key.endsAt)
            }
        }
        self.keys = keys
    }

    /// Returns whether an identity's key is still valid, with the same rights.
    func holds(_ keyID: String, _ grant: ServiceAccountGrant) -> Bool { keys[keyID]?.grant == grant }

    /// Issues an access token for an assertion. The signature is checked before any claim.
    ///
    /// - Parameters:
    ///   - text: the assertion.
    ///   - now: milliseconds since 1970.
    ///   - skew: maximum difference in seconds between the account's clock and this one.
    func issue(for text: String, now: Int64, skew: Int64) throws(Refusal) -> Issued {
        let assertion: ServiceAssertion
        do throws(JWTError) { assertion = try ServiceAssertion(text) } catch { throw .notSigned(reason: "\(error)") }
        guard let key = keys[assertion.keyID], key.endsAt.map({ $0 > now }) ?? true else {
            throw .notSigned(reason: "no account has the key that the assertion names")
        }
        do throws(JWTError) { try assertion.verifySignature(key.publicKey) } catch {
            throw .notSigned(reason: "\(error)")
        }
        let seconds = now / 1_000
        do throws(JWTError) {
            try assertion.check(issuer: key.email, audience: key.tokenURI, now: seconds, skew: skew)
        } catch {
            throw .invalid(account: key.grant.name, error)
        }
        let end = min(seconds + ServiceToken.maxLifeSeconds, key.endsAt.map { $0 / 1_000 } ?? .max)
        let token = ServiceToken(keyID: assertion.keyID, issuedAt: seconds, expiresAt: end)
        return Issued(
            text: token.text(signedWith: tokenKey.revealed()), lifeSeconds: end - seconds, account: key.grant.name)
    }

    /// Returns the identity of a caller with an access token.
    ///
    /// - Parameters:
    ///   - token: a token that `ServiceToken.isClaimed` recognizes.
    ///   - now: milliseconds since 1970.
    func identity(
        of token: JWT, namespace: String, now: Int64, skew: Int64
    ) throws(AuthFailure) -> Identity {
        let verified: ServiceToken
        do throws(JWTError) {
            verified = try ServiceToken(token, key: tokenKey.revealed(), now: now / 1_000, skew: skew)
        } catch {
            throw AuthFailure(error)
        }
        guard let key = keys[verified.keyID], key.endsAt.map({ $0 > now }) ?? true else {
            throw .unparsable(reason: "the service account's key was removed")
        }
        guard key.grant.includes(namespace) else {
            throw .unparsable(reason: "the service account \(key.grant.name) is for other namespaces")
        }
        let end = min((verified.expiresAt + skew) * 1_000, key.endsAt ?? .max)
        let basis = Identity.Basis.serviceAccount(key: verified.keyID, key.grant)
        switch key.grant.role {
        case .viewer: return Identity(.viewer, expiresAt: end, basis: basis)
        case .admin:
            return Identity(
                .admin, power: key.grant.namespaces == nil ? .everything : .namespace, expiresAt: end, basis: basis)
        }
    }
}

/// Reports at most once a minute that access tokens of Google are refused, because clients retry forever.
struct GoogleTokenNotices: Sendable {
    /// The beginning of Google's access tokens.
    static let prefix = "ya29."
    private static let pauseMilliseconds: Int64 = 60_000

    private var reportedAt: Int64?

    /// - Parameter now: milliseconds since 1970.
    mutating func isDue(now: Int64) -> Bool {
        // A clock that was set back must not silence the notices.
        if let reportedAt, (0..<Self.pauseMilliseconds).contains(now - reportedAt) { return false }
        reportedAt = now
        return true
    }
}
