public import HTTPClient
public import Runtime

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
