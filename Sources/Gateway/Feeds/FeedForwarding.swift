import Feeds
import HTTPClient
import HTTPServer
import Runtime
import Wire

/// Passes requests on to the gateway that works their feed. Any thread.
struct FeedForwarding: Sendable {
    private let client: HTTPClient
    private static let header: StaticString = "x-pathmirror-forwarded"
    /// How long the other gateway may take beyond what the request waits for: one that is frozen is not waited for.
    private static let patienceMilliseconds: Milliseconds = 3_000
    private static let maxAnswerBytes = 256 << 20

    init(_ client: HTTPClient) { self.client = client }

    /// Answers a request that this gateway can't serve itself: by the other gateway's answer, or with why not.
    ///
    /// - Parameter wait: how long the request itself waits.
    func forward(
        _ request: HTTPRequest, _ reference: ExchangeReference, _ feed: FeedName, _ refusal: FeedRefusal,
        wait: Milliseconds = 0
    ) {
        // One that was passed on is not passed on again: the feed has moved meanwhile.
        guard case .elsewhere(let address) = refusal, request.header(Self.header) == nil else {
            let answer = FeedAnswer(refusal, of: feed)
            return reference.perform { answer.send(to: $0) }
        }
        let target = String(decoding: request.target, as: UTF8.self)
        var headers: [(name: String, value: String)] = []
        // The database may be named by the host.
        if let host = request.host { headers.append(("Host", String(decoding: host, as: UTF8.self))) }
        if let type = request.headerText("content-type") { headers.append(("Content-Type", type)) }
        let id = send(
            "\(address)\(target.hasPrefix("/") ? target : "/")", request.body, headers,
            authorization: request.headerText("authorization"), wait: wait
        ) { answer in
            let sent = answer ?? FeedAnswer(FeedRefusal.noOwner, of: feed)
            reference.perform { sent.send(to: $0) }
        }
        // Who waits no more is not handed anything there either.
        let cancel = { @Sendable [client] in client.cancel(id) }
        reference.perform(otherwise: cancel) { exchange in exchange.onClose = cancel }
    }

    /// Asks another gateway by POST. Nil where there is no answer.
    @discardableResult
    func send(
        _ url: String, _ body: [UInt8], _ headers: [(name: String, value: String)] = [], authorization: String?,
        wait: Milliseconds = 0,
        _ completion: @escaping @Sendable (FeedAnswer?) -> Void
    ) -> HTTPClient.RequestID {
        var asked = ClientRequest(url)
        asked.method = "POST"
        asked.body = body
        asked.headers = headers + [("\(Self.header)", "1")]
        if let authorization { asked.credentials = [("Authorization", authorization)] }
        asked.timeoutMilliseconds = wait + Self.patienceMilliseconds
        asked.connectTimeoutMilliseconds = 2_000
        asked.maxResponseBytes = Self.maxAnswerBytes
        asked.maxRedirects = 0
        asked.allowsPlainHTTP = true
        // What is between gateways is nobody else's.
        asked.avoidsProxies = true
        return client.send(asked) { result in
            guard case .success(let response) = result else { return completion(nil) }
            var answer = FeedAnswer(status: response.status, response.body)
            answer.contentType = response.header("content-type")
            answer.retryAfter = response.header("retry-after").flatMap { Int($0) }
            completion(answer)
        }
    }
}
