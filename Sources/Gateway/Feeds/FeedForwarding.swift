import Feeds
import HTTPClient
import HTTPServer
import Runtime
import Tree
import Wire

/// Passes requests on to the gateway that works their feed. Any thread.
struct FeedForwarding: Sendable {
    private let client: HTTPClient
    private static let header: StaticString = "x-pathmirror-forwarded"
    /// Names the connection of the consumer that a forwarded pull belongs to.
    private static let openingHeader: StaticString = "x-pathmirror-opening"
    /// How long the other gateway may take beyond what the request waits for: one that is frozen is not waited for.
    private static let patienceMilliseconds: Milliseconds = 3_000
    /// How long it may take for what nobody waits for but who has been refused.
    private static let givingBackMilliseconds: Milliseconds = 1_000
    /// How long a question may take that can be answered without the other gateway, too.
    private static let askingMilliseconds: Milliseconds = 2_000
    /// More than any answer has: about 4 MiB of messages, or one message, of which each byte may be six as JSON. What is longer
    /// would be lost until its deadline, again and again.
    private static let maxAnswerBytes = 1 << 30

    init(_ client: HTTPClient) { self.client = client }

    /// Answers a request that this gateway can't serve itself: by the other gateway's answer, or with why not.
    ///
    /// - Parameters:
    ///   - wait: how long the request itself waits.
    ///   - consumer: who asks for messages having given back what it held; nil for everything else. What an answer had that does
    ///     not arrive is all that such a consumer can hold, and goes back too.
    ///   - opening: the connection of the consumer that the request belongs to.
    func forward(
        _ request: HTTPRequest, _ reference: ExchangeReference, _ feed: FeedName, _ refusal: FeedRefusal,
        wait: Milliseconds = 0, resumed consumer: String? = nil, opening: FeedOpening? = nil
    ) {
        // One that was passed on is not passed on again: the feed has moved meanwhile.
        guard case .elsewhere(let address) = refusal, request.header(Self.header) == nil else {
            let answer = FeedAnswer(refusal, of: feed)
            return reference.perform { answer.send(to: $0) }
        }
        let (url, headers) = (address + Self.target(request), Self.headers(request) + Self.headers(opening))
        let authorization = request.headerText("authorization")
        let refuse = { @Sendable in
            reference.perform { FeedAnswer(FeedRefusal.noOwner, of: feed).send(to: $0) }
        }
        let id = send(url, request.body, headers, authorization: authorization, wait: wait) { result in
            switch result {
            case .success(let answer): reference.perform { answer.send(to: $0) }
            // Who waits no more has nobody to be answered, and may have begun anew.
            case .failure(.cancelled): break
            case .failure:
                guard let consumer else { return refuse() }
                // Before the consumer hears of it: what it is handed next stays with it.
                giveBack(url, headers, authorization: authorization, consumer: consumer) { refuse() }
            }
        }
        // Who waits no more is not handed anything there either.
        let cancel = { @Sendable in self.cancel(id) }
        reference.perform(otherwise: cancel) { exchange in exchange.onClose = cancel }
    }

    /// Asks the gateway at an address what it was asked here. Called back once, from any thread; with nil where there is no good answer soon.
    ///
    /// - Returns: false where the request has come from another gateway: it is not passed on again.
    func ask(_ address: String, _ request: HTTPRequest, _ completion: @escaping @Sendable (FeedAnswer?) -> Void) -> Bool
    {
        guard request.header(Self.header) == nil else { return false }
        send(
            address + Self.target(request), method: "GET", [], Self.headers(request),
            authorization: request.headerText("authorization"),
            wait: Self.askingMilliseconds - Self.patienceMilliseconds
        ) { result in
            guard case .success(let answer) = result, answer.status == 200 else { return completion(nil) }
            completion(answer)
        }
        return true
    }

    /// Has another gateway take back whatever a consumer holds. Soon, or not at all: then deadlines do it.
    ///
    /// - Parameter url: where its messages are asked for.
    func giveBack(
        _ url: String, _ headers: [(name: String, value: String)] = [], authorization: String?, consumer: String,
        _ completion: @escaping @Sendable () -> Void = {}
    ) {
        var body = JSONWriter(form: .plain)
        body.raw("{\"max\":0,\"resume\":true,\"consumer\":")
        body.writeString(consumer)
        body.raw("}")
        let wait = Self.givingBackMilliseconds - Self.patienceMilliseconds
        send(url, body.bytes, headers, authorization: authorization, wait: wait) { _ in completion() }
    }

    /// Sends another gateway a request.
    ///
    /// - Parameter completion: called once, from any thread; with `cancelled` only after `cancel`.
    @discardableResult
    func send(
        _ url: String, method: String = "POST", _ body: [UInt8], _ headers: [(name: String, value: String)] = [],
        authorization: String?, wait: Milliseconds = 0,
        _ completion: @escaping @Sendable (Result<FeedAnswer, HTTPClientError>) -> Void
    ) -> HTTPClient.RequestID {
        var asked = ClientRequest(url)
        asked.method = method
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
            completion(
                result.map { response in
                    var answer = FeedAnswer(status: response.status, response.body)
                    answer.contentType = response.header("content-type")
                    answer.retryAfter = response.header("retry-after").flatMap { Int($0) }
                    return answer
                })
        }
    }

    func cancel(_ id: HTTPClient.RequestID) { client.cancel(id) }

    // MARK: What is passed on

    /// The headers that name a connection of a consumer.
    static func headers(_ opening: FeedOpening?) -> [(name: String, value: String)] {
        opening.map { [("\(openingHeader)", $0.text)] } ?? []
    }

    /// The connection of a consumer that a forwarded request belongs to.
    static func opening(of request: HTTPRequest) -> FeedOpening? {
        guard request.header(header) != nil else { return nil }
        return request.headerText(openingHeader).flatMap { FeedOpening(text: $0) }
    }

    /// The path and query, also of a target that has a scheme and host before them.
    private static func target(_ request: HTTPRequest) -> String {
        let query = request.query.map { "?" + String(decoding: $0, as: UTF8.self) } ?? ""
        return String(decoding: request.path, as: UTF8.self) + query
    }

    private static func headers(_ request: HTTPRequest) -> [(name: String, value: String)] {
        // As proxies do. Gateways that trust this one count the request as the client's.
        let addresses = request.headerTexts("x-forwarded-for") + [request.remoteAddress]
        var headers = [(name: "X-Forwarded-For", value: addresses.joined(separator: ", "))]
        // The database may be named by the host.
        if let host = request.host { headers.append(("Host", String(decoding: host, as: UTF8.self))) }
        if let type = request.headerText("content-type") { headers.append(("Content-Type", type)) }
        return headers
    }
}
