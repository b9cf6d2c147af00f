import Crypto
import Feeds
import HTTPClient
import HTTPServer
import Runtime

/// Who asks something of a feed, as far as the gateway that works the feed has to know.
struct FeedCall: Sendable {
    let feed: FeedName
    /// Which feed of the name the caller was found to be allowed to consume.
    let access: FeedAccess
    /// Whether another gateway has forwarded it: then it is not forwarded again.
    let isForwarded: Bool
    /// The caller's address.
    private let client: String
    /// The connection of the consumer that another gateway has forwarded the request for, and vouches for.
    let opening: FeedOpening?

    private static let forwardedHeader: StaticString = "x-pathmirror-forwarded"

    /// - Parameter client: whom the request comes from; behind a trusted proxy that is not the peer.
    init(
        _ request: HTTPRequest, _ feed: FeedName, _ access: FeedAccess, client: IPAddress, opening: FeedOpening? = nil
    ) {
        self.feed = feed
        self.access = access
        self.client = "\(client)"
        isForwarded = request.header(Self.forwardedHeader) != nil
        self.opening = opening
    }

    /// The request that asks another gateway the same. It carries no credential of the caller: this gateway vouches for it.
    ///
    /// - Parameters:
    ///   - verb: the end of the path, such as `pull`.
    ///   - opening: the connection of the consumer that the request belongs to.
    func request(
        _ verb: String, method: String = "POST", _ body: [UInt8], to peer: FeedPeer, _ identity: ForwardingIdentity,
        opening: FeedOpening? = nil
    ) -> ClientRequest {
        let target = FeedPath.target(verb, of: feed)
        let seal = identity.header(
            peer.key, access, client: client, opening: opening, method: method, target: target, body: body)
        var asked = ClientRequest(peer.address + target)
        asked.method = method
        asked.body = body
        asked.headers = [(name: "\(Self.forwardedHeader)", value: "1")]
        asked.credentials = [(name: "\(ForwardingSeal.header)", value: seal)]
        asked.maxRedirects = 0
        asked.allowsPlainHTTP = true
        asked.pinnedPublicKey = peer.pin.map { String(decoding: Base64.encode($0), as: UTF8.self) }
        // What is between gateways is nobody else's.
        asked.avoidsProxies = true
        return asked
    }
}
