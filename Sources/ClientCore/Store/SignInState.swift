/// What is remembered of the last sign-in: enough to know after a restart that pending writes have to wait until
/// somebody signs in, and nothing that could be used in his place.
public struct SignInState: Sendable, Equatable {
    /// Whether the connection had credentials when it was last up, or was to have them.
    public var isSignedIn: Bool
    /// Whose token it was, where that is known.
    public var subject: String?
    /// When the token ends, in seconds since 1970, where that is known.
    public var expiresAt: Int64?

    public init(isSignedIn: Bool = false, subject: String? = nil, expiresAt: Int64? = nil) {
        self.isSignedIn = isSignedIn
        self.subject = subject
        self.expiresAt = expiresAt
    }
}
