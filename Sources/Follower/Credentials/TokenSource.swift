internal import ClientCore
internal import HTTPClient
internal import Runtime
internal import Wire

/// Supplies the credential for an upstream, and requests access tokens of a service account. Belongs to one thread, which it
/// blocks while it requests a token.
struct TokenSource {
    private let credentials: UpstreamCredentials
    private let client: UpstreamRequests
    private let readFile: @Sendable (String) throws -> [UInt8]
    private var current: AccessToken?

    init(
        _ credentials: UpstreamCredentials, _ client: UpstreamRequests,
        readFile: @escaping @Sendable (String) throws -> [UInt8]
    ) {
        self.credentials = credentials
        self.client = client
        self.readFile = readFile
    }

    /// Returns a credential; nil if the follower does not sign in.
    ///
    /// Reads the file each time, so that a replaced file is used for the next login.
    ///
    /// - Parameter isForced: whether the upstream refused the last credential, or it is about to expire.
    mutating func credential(isForced: Bool) throws(FollowError) -> UpstreamCredential? {
        switch try credentials.load(readFile) {
        case .none: return nil
        case .fixed(let credential): return credential
        case .account(let account):
            let now = Clock.unixMilliseconds
            if !isForced, let current, now < current.renewsAt {
                return UpstreamCredential(current.text, isBearer: true)
            }
            let token = try requestToken(account, now: now)
            current = token
            return UpstreamCredential(token.text, isBearer: true)
        }
    }

    private func requestToken(_ account: ServiceAccount, now: Int64) throws(FollowError) -> AccessToken {
        var request = HTTPClientRequest(account.tokenURI)
        request.method = "POST"
        request.headers = [("Content-Type", "application/x-www-form-urlencoded")]
        request.body = try account.tokenRequest(now: now / 1_000)
        request.maxRedirects = 0
        // Google's endpoint uses TLS. A test's endpoint on this machine need not.
        request.allowsPlainHTTP = ClientURL(account.tokenURI).map { Self.isThisMachine($0.host) } ?? false
        request.maxResponseBytes = 64 << 10
        let response: ClientResponse
        do throws(HTTPClientError) {
            response = try client.perform(request)
        } catch {
            throw .noToken("\(error)")
        }
        guard response.status == 200 else {
            throw .noToken("status \(response.status)")
        }
        return try AccessToken(response.body, now: now)
    }

    static func isThisMachine(_ host: String) -> Bool {
        host == "localhost" || IPAddress(host).map(\.isLoopback) == true
    }
}

extension AuthRequest {
    /// Creates a follower's login. A signed token in the form of an ID token is a user's; everything else is an
    /// administrator's.
    init(_ credential: UpstreamCredential) { self.init(token: credential.text.revealed()) }
}
