public import HTTPClient
import Rules
public import Runtime
import Synchronization
import Tokens
import Tree
import Wire

/// Determines the identity of a caller from its credential (reference: rtdb-protocol 10). Any thread; never blocks.
final class Authenticator: Sendable {
    /// The credential that a caller presents, and the facts needed to judge it.
    struct Credentials: Sendable {
        /// The credential, or nil if the caller presents none.
        var credential: String?
        /// The namespace of the request. Each namespace has its own secrets.
        var namespace: String
        /// Whether the caller is on this machine.
        var isLoopback: Bool
        var override = Override.none
        /// Whether the request is for a feed. Only such requests accept a feed's token.
        var isForFeed = false
    }

    /// The user that an administrator wants to act as (reference: rtdb-protocol 7.2 and 10.1).
    enum Override: Sendable {
        case none
        /// The value of `auth` for the rules; `.null` stands for a caller that is not signed in.
        case auth(Node)
    }

    enum Answer: Sendable {
        case now(Result<Identity, AuthFailure>)
        /// The issuer's keys have to be fetched first. The caller calls this function once, with a completion. The
        /// completion runs once, on another thread.
        case later(@Sendable (@escaping @Sendable (Result<Identity, AuthFailure>) -> Void) -> Void)
    }

    /// Maximum length of a credential in bytes. The limit exists because the loops verify tokens.
    private static let maxCredentialBytes = 64 * 1024

    let secrets = SecretStore()
    /// Maximum difference in seconds between the clock of a token's issuer and this one.
    let skewSeconds: Int64
    private let acceptsOwner: Bool
    private let acceptsUnsignedTokens: Bool
    private let customTokens: CustomTokens
    private let idTokens: IDTokens?
    private let logger: Logger?
    private let googleNotices = Mutex(GoogleTokenNotices())

    /// - Parameter logger: reports refused access tokens of Google.
    init(_ credentials: GatewayCredentials, keySet: KeySet? = nil, logger: Logger? = nil) {
        self.logger = logger
        skewSeconds = credentials.clockSkewSeconds
        acceptsOwner = credentials.acceptsOwner
        acceptsUnsignedTokens = credentials.acceptsUnsignedTokens
        customTokens = CustomTokens(skewSeconds: credentials.clockSkewSeconds)
        idTokens = credentials.idTokens.flatMap { settings in
            keySet.map { IDTokens(settings, skewSeconds: credentials.clockSkewSeconds, keySet: $0) }
        }
        secrets.replace(administrators: credentials.administratorSecrets, databases: credentials.databaseSecrets)
    }

    /// - Parameter now: milliseconds since 1970.
    func authenticate(_ credentials: Credentials, now: Int64 = Clock.unixMilliseconds) -> Answer {
        guard let credential = credentials.credential else {
            return .now(Self.overridden(.anonymous(isLoopback: credentials.isLoopback), credentials))
        }
        do throws(AuthFailure) {
            switch try identify(credential, credentials, now: now) {
            case .identity(let identity): return .now(Self.overridden(identity, credentials))
            case .keyNeeded(let token):
                return .later { [idTokens] callback in
                    idTokens?.whenVerified(token) { callback($0.flatMap { Self.overridden($0, credentials) }) }
                }
            }
        } catch {
            return .now(.failure(error))
        }
    }

    /// Returns whether an identity is still valid: it has not expired, and its secret has not been removed.
    func isValid(_ identity: Identity, now: Int64 = Clock.unixMilliseconds) -> Bool {
        if let end = identity.expiresAt, end <= now { return false }
        return secrets.holds(identity.basis)
    }

    private func identify(
        _ credential: String, _ credentials: Credentials, now: Int64
    ) throws(AuthFailure) -> IDTokens.Outcome {
        if acceptsOwner, credentials.isLoopback, credential == "owner" {
            return .identity(Identity(.admin, power: .everything))
        }
        guard credential.utf8.count <= Self.maxCredentialBytes else {
            throw .unparsable(reason: "the credential is too long")
        }
        if credential.hasPrefix(GoogleTokenNotices.prefix) { throw refuseGoogleToken(credentials.namespace, now: now) }
        guard JWT.looksLikeToken(credential) else { return .identity(try secret(credential, credentials.namespace)) }
        if let identity = idTokens?.knownIdentity(of: credential, now: now) { return .identity(identity) }
        // The algorithm decides which keys are tried, and each kind of key accepts its own algorithm only: the public
        // key of an issuer never serves as a secret.
        let token: JWT
        do throws(JWTError) { token = try JWT(credential) } catch { throw AuthFailure(error) }
        switch token.algorithm {
        case .rs256:
            guard let idTokens else { throw .unparsable(reason: "ID tokens are not configured") }
            return try idTokens.identity(of: token, credential, now: now)
        case .hs256 where ServiceToken.isClaimed(by: token):
            guard let accounts = secrets.serviceAccounts else { throw .unavailable }
            return .identity(
                try accounts.identity(of: token, namespace: credentials.namespace, now: now, skew: skewSeconds))
        case .hs256:
            return .identity(try customTokens.identity(of: token, secrets, namespace: credentials.namespace, now: now))
        case .none:
            guard acceptsUnsignedTokens, credentials.isLoopback else {
                throw .unparsable(reason: "the token is not signed")
            }
            // Emulators' tokens may be long expired (reference: rtdb-protocol 10.2).
            return .identity(Identity(AuthContext(auth: try IDTokens.auth(token.claims))))
        }
    }

    /// Returns the failure for an access token of Google, and reports it.
    private func refuseGoogleToken(_ namespace: String, now: Int64) -> AuthFailure {
        let reason = "it is an access token of Google, which the gateway can't verify"
        if googleNotices.withLock({ $0.isDue(now: now) }) {
            logger?.info(
                "access token of Google refused",
                [("namespace", namespace), ("reason", reason), ("see", "docs/guides/admin-sdks.md#service-accounts")])
        }
        return .unparsable(reason: reason)
    }

    private func secret(_ text: String, _ namespace: String) throws(AuthFailure) -> Identity {
        let bytes = Array(text.utf8)
        let administrator = SecretStore.find(bytes, in: secrets.administrators)
        let database = SecretStore.find(bytes, in: secrets.database(namespace))
        if let administrator {
            return Identity(.admin, power: .everything, basis: .administratorSecret(administrator.id))
        }
        guard let database else { throw .unparsable(reason: "the secret is unknown") }
        return Identity(.admin, power: .namespace, basis: .databaseSecret(database.id, namespace: namespace))
    }

    private static func overridden(_ identity: Identity, _ credentials: Credentials) -> Result<Identity, AuthFailure> {
        guard identity.feed == nil || credentials.isForFeed else { return .failure(.forFeedOnly) }
        return switch credentials.override {
        case .none: .success(identity.of(callerOnThisMachine: credentials.isLoopback))
        case .auth(let auth):
            identity.context.isAdmin ? .success(identity.acting(as: auth)) : .failure(.overrideRefused)
        }
    }
}

extension Authenticator.Override {
    /// Parses an `auth` value from JSON: an object or null.
    init(json: [UInt8]) throws(AuthFailure) {
        let value: ClaimValue
        do throws(JWTError) { value = try ClaimsReader.value(json) } catch { throw .badOverride }
        switch value {
        case .null: self = .auth(.null)
        case .object(let claims): self = .auth(Node(claims))
        default: throw .badOverride
        }
    }
}

extension AuthFailure {
    init(_ error: JWTError) {
        if case .expired = error { self = .expired } else { self = .unparsable(reason: "\(error)") }
    }
}

/// The credentials that the gateway accepts. By default it accepts none.
public struct GatewayCredentials: Sendable {
    /// Whether `owner` is an administrator's credential for peers on this machine. For `dev` only.
    public var acceptsOwner = false
    /// Whether peers on this machine may present unsigned tokens. For `dev` only.
    public var acceptsUnsignedTokens = false
    /// Secrets of administrators of every namespace. They also sign service tokens.
    public var administratorSecrets: [Secret<[UInt8]>] = []
    /// Secrets of administrators of one namespace, by namespace. They also sign custom tokens. Several are valid at the
    /// same time, so that they can be rotated.
    public var databaseSecrets: [String: [Secret<[UInt8]>]] = [:]
    /// The accepted issuer of ID tokens; nil rejects all ID tokens.
    public var idTokens: IDTokenSettings?
    /// Maximum difference in seconds between the clock of a token's issuer and this one.
    public var clockSkewSeconds: Int64 = 30

    public init() {}
}

/// The issuer and audience of accepted ID tokens.
public struct IDTokenSettings: Sendable {
    /// The required `iss`.
    public var issuer: String
    /// The required `aud`, or a required member of it.
    public var audience: String
    /// The URL of the issuer's keys: a JWK set, or an object of certificates by key id.
    public var keySetURL: String
    public var client: HTTPClient
    public var keySet = KeySetSettings()

    public init(issuer: String, audience: String, keySetURL: String, client: HTTPClient) {
        self.issuer = issuer
        self.audience = audience
        self.keySetURL = keySetURL
        self.client = client
    }

    /// Returns whether a URL is plain HTTP to this machine. Plain HTTP is acceptable for keys only there.
    public static func isLoopback(_ url: String) -> Bool {
        guard url.lowercased().hasPrefix("http://") else { return false }
        let authority = url.dropFirst(7).prefix { $0 != "/" && $0 != "?" && $0 != "#" && $0 != "\\" }
        guard !authority.contains("@") else { return false }
        if authority.hasPrefix("[::1]") { return true }
        let host = authority.prefix { $0 != ":" }
        return host == "127.0.0.1" || host == "localhost"
    }
}

/// The credential that a REST request presents (reference: rtdb-protocol 10.1).
enum ShownCredential {
    /// Returns `auth`, else `access_token`, else the header's token; nil if there is none. An empty credential counts
    /// as none: clients that are not signed in append `?auth=` or send `Bearer` without a token.
    static func find(_ parameters: RESTParameters, authorization: String?) -> String? {
        for text in [parameters.auth, parameters.accessToken] {
            if let text, !text.isEmpty { return text }
        }
        guard let parts = authorization?.split(separator: " ", maxSplits: 1), parts.count == 2,
            parts[0].lowercased() == "bearer"
        else { return nil }
        let token = parts[1].drop { $0 == " " }
        return token.isEmpty ? nil : String(token)
    }
}
