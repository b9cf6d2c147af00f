import Crypto
import Feeds
public import HTTPClient
import HTTPServer
import Runtime

/// The HTTP clients with which gateways forward feed requests to each other. Any thread.
public final class FeedClients: Sendable {
    /// For acknowledgements, status, and pulls that do not wait: the other gateway answers at once.
    let prompt: HTTPClient
    /// For pulls that wait at the other gateway. Each waiting pull takes one slot, so that such pulls take no slot from
    /// other requests.
    let waiting: HTTPClient

    public init(prompt: HTTPClient.Settings, waiting: HTTPClient.Settings) throws(HTTPClientError) {
        self.prompt = try HTTPClient(prompt)
        do throws(HTTPClientError) {
            self.waiting = try HTTPClient(waiting)
        } catch {
            self.prompt.stop()
            throw error
        }
    }

    /// Fails the requests in flight and ends the threads.
    public func stop() {
        waiting.stop()
        prompt.stop()
    }
}

/// A forwarded request, independent of the client that sends it. Any thread.
final class ForwardedRequest: Sendable {
    private struct State: Sendable {
        var turn = 0
        var current: (client: HTTPClient, id: HTTPClient.RequestID)?
        var isCancelled = false
    }

    private let state = MutexBox(State())

    /// Sends a request in place of the previous one, which has ended.
    ///
    /// - Parameter completion: called once; with `cancelled` only after `cancel`.
    func send(
        _ request: HTTPClientRequest, by client: HTTPClient, _ completion: @escaping HTTPClient.Completion
    ) {
        let turn = state.withLock { state -> Int? in
            state.turn += 1
            return state.isCancelled ? nil : state.turn
        }
        guard let turn else { return completion(.failure(.cancelled)) }
        let id = client.send(request, completion)
        // The request may have ended by now, and another may have replaced it.
        let isTooLate = state.withLock { state -> Bool in
            guard state.turn == turn else { return false }
            state.current = (client, id)
            return state.isCancelled
        }
        if isTooLate { client.cancel(id) }
    }

    /// Fails the request with `cancelled`, soon, unless it has ended.
    func cancel() {
        let current = state.withLock { state in
            state.isCancelled = true
            return state.current
        }
        if let current { current.client.cancel(current.id) }
    }
}

/// A feed request's caller, as far as the gateway that runs the feed has to know it.
struct FeedCall: Sendable {
    let feed: FeedName
    /// The feed with this name that the caller may consume.
    let access: FeedAccess
    /// Whether another gateway forwarded the request. Such a request is not forwarded again.
    let isForwarded: Bool
    /// The caller's address.
    private let client: String
    /// The consumer's connection in the signed header of the forwarding gateway.
    let opening: FeedOpening?

    private static let forwardedHeader: StaticString = "x-pathmirror-forwarded"

    /// - Parameter client: the client's address. With a trusted proxy it differs from the peer's address.
    init(
        _ request: HTTPRequest, _ feed: FeedName, _ access: FeedAccess, client: IPAddress, opening: FeedOpening? = nil
    ) {
        self.feed = feed
        self.access = access
        self.client = "\(client)"
        isForwarded = request.header(Self.forwardedHeader) != nil
        self.opening = opening
    }

    /// Returns the request to forward to another gateway. It has no credential of the caller; this gateway's signature
    /// replaces it.
    ///
    /// - Parameters:
    ///   - verb: the end of the path, such as `pull`.
    ///   - opening: the consumer's connection that the request belongs to.
    func request(
        _ verb: String, method: String = "POST", _ body: [UInt8], to peer: FeedPeer, _ identity: ForwardingIdentity,
        opening: FeedOpening? = nil
    ) -> HTTPClientRequest {
        let target = FeedPath.target(verb, of: feed)
        let signature = identity.header(
            peer.key, access, client: client, opening: opening, method: method, target: target, body: body)
        var asked = HTTPClientRequest(peer.address + target)
        asked.method = method
        asked.body = body
        asked.headers = [(name: "\(Self.forwardedHeader)", value: "1")]
        asked.credentials = [(name: "\(ForwardingSignature.header)", value: signature)]
        asked.maxRedirects = 0
        asked.allowsPlainHTTP = true
        asked.pinnedPublicKey = peer.pin.map { String(decoding: Base64.encode($0), as: UTF8.self) }
        // Traffic between gateways must not pass a proxy.
        asked.avoidsProxies = true
        return asked
    }
}
