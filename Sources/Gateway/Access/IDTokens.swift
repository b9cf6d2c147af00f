import Crypto
import Rules
import Runtime
import Tokens
import Tree

/// Checks tokens that an identity provider signed with RS256 (reference: rtdb-protocol 10.2).
final class IDTokens: Sendable {
    enum Outcome: Sendable {
        case identity(Identity)
        /// All checks but the signature passed; its key has to be fetched.
        case keyNeeded(Unverified)
    }

    struct Unverified: Sendable {
        fileprivate let token: JWT
        fileprivate let keyID: String
        fileprivate let identity: Identity
        fileprivate let digest: [UInt8]
    }

    static let maxUIDBytes = 256

    private let settings: IDTokenSettings
    private let skewSeconds: Int64
    private let keySet: KeySet
    private let cache = IdentityCache(capacity: 20_000)

    init(_ settings: IDTokenSettings, skewSeconds: Int64, keySet: KeySet) {
        self.settings = settings
        self.skewSeconds = skewSeconds
        self.keySet = keySet
    }

    /// Returns the identity of a token that was verified before. Clients send the same token for an hour; checking its
    /// signature takes some 15 microseconds, and hashing it takes 1.
    func knownIdentity(of credential: String, now: Int64) -> Identity? {
        cache.identity(Digest.sha256(Array(credential.utf8)), version: keySet.version, now: now)
    }

    func identity(of token: JWT, _ credential: String, now: Int64) throws(AuthFailure) -> Outcome {
        let unverified: Unverified
        do throws(JWTError) {
            unverified = try check(token, Digest.sha256(Array(credential.utf8)), now: now)
        } catch {
            throw AuthFailure(error)
        }
        switch keySet.key(unverified.keyID) {
        case .key(let key, let version): return .identity(try verify(unverified, key, version))
        case .unknown: throw .unparsable(reason: "the token's key is not among the issuer's")
        case .unavailable: throw .unavailable
        case .wait: return .keyNeeded(unverified)
        }
    }

    /// Calls back once the key was fetched, or the fetch has failed.
    func whenVerified(_ unverified: Unverified, _ callback: @escaping @Sendable (Result<Identity, AuthFailure>) -> Void)
    {
        keySet.whenKnown(unverified.keyID) { [self] lookup in
            let result: Result<Identity, AuthFailure>
            switch lookup {
            case .key(let key, let version):
                do throws(AuthFailure) {
                    result = .success(try verify(unverified, key, version))
                } catch {
                    result = .failure(error)
                }
            case .unknown: result = .failure(.unparsable(reason: "the token's key is not among the issuer's"))
            case .unavailable, .wait: result = .failure(.unavailable)
            }
            callback(result)
        }
    }

    /// Checks everything that needs no key, so that a forged or old token does not cause a fetch of keys.
    private func check(_ token: JWT, _ digest: [UInt8], now: Int64) throws(JWTError) -> Unverified {
        guard token.algorithm == .rs256 else { throw .wrongAlgorithm(token.algorithm.rawValue) }
        guard let keyID = token.keyID, (1...256).contains(keyID.utf8.count) else { throw .malformed("no key id") }
        let claims = token.claims
        guard claims["iss"] == .string(settings.issuer) else { throw .wrongIssuer }
        switch claims["aud"] {
        case .string(let audience)? where audience == settings.audience: break
        case .array(let audiences)? where audiences.contains(.string(settings.audience)): break
        default: throw .wrongAudience
        }
        let times = try TokenTimes(claims, now: now / 1_000, skew: skewSeconds, requiresExpiry: true)
        guard times.issuedAt != nil else { throw .badClaim("iat") }
        guard let subject = claims["sub"]?.string, (1...Self.maxUIDBytes).contains(subject.utf8.count) else {
            throw .badClaim("sub")
        }
        let identity = Identity(
            AuthContext(auth: Self.auth(claims, uid: subject)),
            expiresAt: times.expiresAt.map { ($0 + skewSeconds) * 1_000 })
        return Unverified(token: token, keyID: keyID, identity: identity, digest: digest)
    }

    private func verify(
        _ unverified: Unverified, _ key: RSAPublicKey, _ version: Int
    ) throws(AuthFailure) -> Identity {
        do throws(JWTError) {
            try unverified.token.verify(with: key)
        } catch {
            throw AuthFailure(error)
        }
        cache.insert(unverified.identity, unverified.digest, version: version)
        return unverified.identity
    }

    // MARK: Claims as rules see them

    /// Returns the `auth` of an unsigned token.
    static func auth(_ claims: Claims) throws(AuthFailure) -> Node {
        guard let uid = claims["sub"]?.string ?? claims["user_id"]?.string, (1...maxUIDBytes).contains(uid.utf8.count)
        else { throw .unparsable(reason: "\(JWTError.badClaim("sub"))") }
        return auth(claims, uid: uid)
    }

    private static func auth(_ claims: Claims, uid: String) -> Node {
        let provider = claims["firebase"]?.object?["sign_in_provider"]?.string ?? "custom"
        return Node(children: [
            (Key("uid"), .string(uid)), (Key("provider"), .string(provider)), (Key("token"), Node(claims)),
        ])
    }
}
