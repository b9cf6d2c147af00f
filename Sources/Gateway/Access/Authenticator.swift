public import HTTPClient
import Rules
public import Runtime
import Tokens
import Tree
import Wire

/// Finds out who asks from a credential (reference: rtdb-protocol 10). Any thread; never blocks.
final class Authenticator: Sendable {
    /// What a caller shows.
    struct Credentials: Sendable {
        /// The credential; nil for none.
        var credential: String?
        /// The namespace that is asked for: secrets are each namespace's own.
        var namespace: String
        /// Whether the caller is on this machine.
        var isLoopback: Bool
        var override = Override.none
        /// Whether something of a feed is asked for, which a feed's token is good for.
        var isForFeed = false
    }

    /// An administrator may act as somebody else (reference: rtdb-protocol 7.2 and 10.1).
    enum Override: Sendable {
        case none
        /// What rules are to see as `auth`; `.null` for a caller who is not signed in.
        case auth(Node)
    }

    enum Answer: Sendable {
        case now(Result<Identity, AuthFailure>)
        /// The issuer's keys have to be fetched first. Call it once with what is to be done with the result, which then
        /// is called once, from another thread.
        case later(@Sendable (@escaping @Sendable (Result<Identity, AuthFailure>) -> Void) -> Void)
    }

    /// The longest credential that is looked at: tokens are judged on the loops.
    private static let maxCredentialBytes = 64 * 1024

    let secrets = SecretStore()
    private let acceptsOwner: Bool
    private let acceptsUnsignedTokens: Bool
    private let customTokens: CustomTokens
    private let idTokens: IDTokens?

    init(_ credentials: GatewayCredentials, keySet: KeySet? = nil) {
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

    /// Whether a identity still holds: not expired, and its secret not rotated away.
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
        guard credential.utf8.count <= Self.maxCredentialBytes else { throw .unparsable(reason: "it is too long") }
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
        case .hs256:
            return .identity(try customTokens.identity(of: token, secrets, namespace: credentials.namespace, now: now))
        case .none:
            guard acceptsUnsignedTokens, credentials.isLoopback else {
                throw .unparsable(reason: "nobody signed the token")
            }
            // Emulators' tokens may be long expired (reference: rtdb-protocol 10.2).
            return .identity(Identity(AuthContext(auth: try IDTokens.auth(token.claims))))
        }
    }

    private func secret(_ text: String, _ namespace: String) throws(AuthFailure) -> Identity {
        let bytes = Array(text.utf8)
        let administrator = SecretStore.find(bytes, in: secrets.administrators)
        let database = SecretStore.find(bytes, in: secrets.database(namespace))
        if let administrator {
            return Identity(.admin, power: .everything, basis: .administratorSecret(administrator.id))
        }
        guard let database else { throw .unparsable(reason: "the secret is not known") }
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
    /// The `auth` that a JSON text stands for: an object or null.
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

/// What callers can prove who they are with. Nothing is accepted unless it is set here.
public struct GatewayCredentials: Sendable {
    /// `owner` is an administrator, for peers on this machine. For `dev` only.
    public var acceptsOwner = false
    /// Tokens that nobody signed are believed, for peers on this machine. For `dev` only.
    public var acceptsUnsignedTokens = false
    /// Texts that make whoever names one an administrator of every namespace, and that sign service tokens.
    public var administratorSecrets: [Secret<[UInt8]>] = []
    /// Each namespace's own secrets: texts that make whoever names one an administrator there, and that sign custom
    /// tokens. Several hold at once, so that they can be rotated.
    public var databaseSecrets: [String: [Secret<[UInt8]>]] = [:]
    /// Who issues ID tokens; nil accepts none.
    public var idTokens: IDTokenSettings?
    /// By how many seconds the clocks of those who issue tokens may differ from this one.
    public var clockSkewSeconds: Int64 = 30

    public init() {}
}

/// Whose ID tokens are believed, and for whom they must be.
public struct IDTokenSettings: Sendable {
    /// What `iss` must be.
    public var issuer: String
    /// What `aud` must be, or contain.
    public var audience: String
    /// Where the issuer publishes its keys: a JWK set, or an object of certificates by key id.
    public var keySetURL: String
    /// What fetches them.
    public var client: HTTPClient
    public var keySet = KeySetSettings()

    public init(issuer: String, audience: String, keySetURL: String, client: HTTPClient) {
        self.issuer = issuer
        self.audience = audience
        self.keySetURL = keySetURL
        self.client = client
    }

    /// Whether an address is of this machine and plain HTTP, which will do for keys only there.
    public static func isLoopback(_ url: String) -> Bool {
        guard url.lowercased().hasPrefix("http://") else { return false }
        let authority = url.dropFirst(7).prefix { $0 != "/" && $0 != "?" && $0 != "#" && $0 != "\\" }
        guard !authority.contains("@") else { return false }
        if authority.hasPrefix("[::1]") { return true }
        let host = authority.prefix { $0 != ":" }
        return host == "127.0.0.1" || host == "localhost"
    }
}

/// The credential that a REST request shows (reference: rtdb-protocol 10.1).
enum ShownCredential {
    /// `auth`, else `access_token`, else the header's; nil for none. An empty one is none: clients append `?auth=` and send
    /// `Bearer` without having anything to put behind it, and mean that they are nobody.
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
