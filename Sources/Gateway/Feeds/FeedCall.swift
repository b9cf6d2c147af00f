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
    /// What gateways of older versions need: the caller's own credential, and the addresses that the request has come by.
    private let authorization: String?
    private let credentialParameters: String
    private let addresses: String

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
        authorization = request.headerText("authorization")
        credentialParameters = Self.credentialParameters(request.query)
        addresses = (request.headerTexts("x-forwarded-for") + [request.remoteAddress]).joined(separator: ", ")
    }

    /// The request that asks another gateway the same. It carries no credential of the caller's but to a gateway of an older version, which
    /// knows no other way.
    ///
    /// - Parameters:
    ///   - verb: the end of the path, such as `pull`.
    ///   - opening: the connection of the consumer that the request belongs to.
    func request(
        _ verb: String, method: String = "POST", _ body: [UInt8], to peer: FeedPeer, _ identity: ForwardingIdentity,
        opening: FeedOpening? = nil
    ) -> ClientRequest {
        var target = FeedPath.target(verb, of: feed)
        var headers = [(name: "\(Self.forwardedHeader)", value: "1")]
        var credentials: [(name: String, value: String)] = []
        if let key = peer.key {
            let value = identity.header(
                key, access, client: client, opening: opening, method: method, target: target, body: body)
            credentials.append(("\(ForwardingSeal.header)", value))
        } else {
            target += credentialParameters
            headers.append(("X-Forwarded-For", addresses))
            if let authorization { credentials.append(("Authorization", authorization)) }
        }
        var asked = ClientRequest(peer.address + target)
        asked.method = method
        asked.body = body
        asked.headers = headers
        asked.credentials = credentials
        asked.maxRedirects = 0
        asked.allowsPlainHTTP = true
        asked.pinnedPublicKey = peer.pin.map { String(decoding: Base64.encode($0), as: UTF8.self) }
        // What is between gateways is nobody else's.
        asked.avoidsProxies = true
        return asked
    }

    /// `&auth=…` and the like.
    private static func credentialParameters(_ query: ArraySlice<UInt8>?) -> String {
        let pairs = (query ?? []).split(separator: UInt8(ascii: "&")).map { String(decoding: $0, as: UTF8.self) }
        return pairs.filter { $0.hasPrefix("auth=") || $0.hasPrefix("access_token=") }.map { "&" + $0 }.joined()
    }
}
