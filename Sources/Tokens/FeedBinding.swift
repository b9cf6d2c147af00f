/// The feed that a token is for: the claims `feed`, `ns` and `fid` of a token that a secret signed.
public struct FeedBinding: Sendable, Hashable {
    public let feed: String
    public let namespace: String
    /// Distinguishes the feed from others that have or had its name: a UUID's text. Nil in tokens that were minted
    /// without a database.
    public let id: String?

    private static let feedClaim = "feed"
    private static let namespaceClaim = "ns"
    private static let idClaim = "fid"

    /// Returns nil if a name is invalid, or the id is not a UUID in lower case.
    public init?(feed: String, namespace: String, id: String? = nil) {
        guard Self.isName(feed, longest: 63), Self.isName(namespace, longest: 64), id.map(Self.isID) ?? true else {
            return nil
        }
        self.feed = feed
        self.namespace = namespace
        self.id = id
    }

    /// Parses the claims of a token; returns nil for a token that is not for a feed.
    ///
    /// - Throws: `badClaim` if the feed or its namespace is missing or invalid, or if the token also has other rights:
    ///   a token for a feed may be for nothing else.
    public init?(_ claims: Claims) throws(JWTError) {
        guard let claim = claims[Self.feedClaim] else { return nil }
        guard let feed = claim.string else { throw .badClaim(Self.feedClaim) }
        guard let namespace = claims[Self.namespaceClaim]?.string else { throw .badClaim(Self.namespaceClaim) }
        let id = claims[Self.idClaim]
        guard id == nil || id?.string != nil else { throw .badClaim(Self.idClaim) }
        for other in ["admin", "d"] where claims[other] != nil { throw .badClaim(other) }
        guard let binding = FeedBinding(feed: feed, namespace: namespace, id: id?.string) else {
            throw .badClaim(Self.feedClaim)
        }
        self = binding
    }

    /// Adds the claims that `init(_:)` parses.
    public func write(to claims: inout Claims) {
        claims[Self.feedClaim] = .string(feed)
        claims[Self.namespaceClaim] = .string(namespace)
        claims[Self.idClaim] = id.map { .string($0) }
    }

    private static func isID(_ text: String) -> Bool {
        text.utf8.count == 36
            && text.utf8.enumerated().allSatisfy { index, byte in
                switch (index, byte) {
                case (8, _), (13, _), (18, _), (23, _): byte == UInt8(ascii: "-")
                case (_, 0x30...0x39), (_, 0x61...0x66): true
                default: false
                }
            }
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
