/// The one feed that a token is for: the claims `feed` and `ns` of a token that a secret signed.
public struct FeedBinding: Sendable, Hashable {
    public let feed: String
    public let namespace: String

    private static let feedClaim = "feed"
    private static let namespaceClaim = "ns"

    /// Nil where a name is none.
    public init?(feed: String, namespace: String) {
        guard Self.isName(feed, longest: 63), Self.isName(namespace, longest: 64) else { return nil }
        self.feed = feed
        self.namespace = namespace
    }

    /// What a token's claims say; nil for a token that is for no feed.
    ///
    /// - Throws: `badClaim` where the feed or its namespace is not named as it must be, and where the token is for
    ///   something else, too: one that is for a feed is for nothing else.
    public init?(_ claims: Claims) throws(JWTError) {
        guard let claim = claims[Self.feedClaim] else { return nil }
        guard let feed = claim.string else { throw .badClaim(Self.feedClaim) }
        guard let namespace = claims[Self.namespaceClaim]?.string else { throw .badClaim(Self.namespaceClaim) }
        for other in ["admin", "d"] where claims[other] != nil { throw .badClaim(other) }
        guard let binding = FeedBinding(feed: feed, namespace: namespace) else { throw .badClaim(Self.feedClaim) }
        self = binding
    }

    /// Adds what `init(_:)` reads.
    public func write(to claims: inout Claims) {
        claims[Self.feedClaim] = .string(feed)
        claims[Self.namespaceClaim] = .string(namespace)
    }

    private static func isName(_ text: String, longest: Int) -> Bool {
        (1...longest).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
                default: false
                }
            }
    }
}
