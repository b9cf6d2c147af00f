public import Wire

/// Who is signed in, as far as the machine knows, and what was made of it.
struct Login: Sendable {
    /// The token for the connection that stands or is made.
    enum Token: Sendable {
        case unknown
        /// The app has been asked.
        case asked(isForced: Bool)
        case known(AuthRequest?)
    }

    var token = Token.unknown
    /// The app is to give another token than the one before: that was refused.
    var needsNewToken = false
    /// The pause between two tries is there for the want of a token that is good: a new one ends it.
    var isPausingForToken = false
    /// Of the login that was sent last.
    var serial: UInt64 = 0
    /// Refused one after the other.
    var failures = 0
    /// When a new token is to be asked for; the one in use ends soon.
    var refreshAt: Int64?
    var appCheckToken: String?

    /// For a new connection a token is asked for, unless the app has just given one. Nil where it need not be asked.
    mutating func askForConnection() -> Bool? {
        isPausingForToken = false
        if case .known = token { return nil }
        token = .asked(isForced: needsNewToken)
        defer { needsNewToken = false }
        return needsNewToken
    }

    /// A token is good for one connection only: the next asks the app again.
    mutating func connectionEnded() {
        token = .unknown
        refreshAt = nil
    }
}

extension AuthRequest {
    /// A login with a token as apps have it: a signed one (a JWT) is a user's, anything else an administrator's.
    public init(token: String) {
        self.init(credential: token, isGoogle: token.split(separator: ".", omittingEmptySubsequences: false).count != 3)
    }
}
