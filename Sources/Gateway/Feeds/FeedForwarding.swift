import Feeds
import HTTPClient
import HTTPServer
import Runtime
import Tree
import Wire

/// Passes requests on to the gateway that works their feed. Any thread.
struct FeedForwarding: Sendable {
    private let clients: FeedClients
    private static let header: StaticString = "x-pathmirror-forwarded"
    /// How long the other gateway may take beyond what the request waits for: one that is frozen is not waited for.
    private static let patienceMilliseconds: Milliseconds = 3_000
    /// How long it may take for what nobody waits for but who has been refused.
    private static let givingBackMilliseconds: Milliseconds = 1_000
    /// How long a question may take that can be answered without the other gateway, too.
    private static let askingMilliseconds: Milliseconds = 2_000
    /// More than any answer has: about 4 MiB of messages, or one message, of which each byte may be six as JSON. What is longer
    /// would be lost until its deadline, again and again.
    private static let maxAnswerBytes = 1 << 30

    init(_ clients: FeedClients) { self.clients = clients }

    /// Answers a request that this gateway can't serve itself: by the other gateway's answer, or with why not.
    ///
    /// - Parameters:
    ///   - isPull: whether the request asks for messages. All others go before requests that do.
    ///   - wait: how long the request itself waits.
    ///   - consumer: who asks for messages having given back what it held; nil for everything else. What an answer had that does
    ///     not arrive is all that such a consumer can hold, and goes back too.
    func forward(
        _ request: HTTPRequest, _ reference: ExchangeReference, _ feed: FeedName, _ refusal: FeedRefusal,
        isPull: Bool = false, wait: Milliseconds = 0, resumed consumer: String? = nil
    ) {
        // One that was passed on is not passed on again: the feed has moved meanwhile.
        guard case .elsewhere(let address) = refusal, request.header(Self.header) == nil else {
            let answer = FeedAnswer(refusal, of: feed)
            return reference.perform { answer.send(to: $0) }
        }
        let (url, headers) = (address + Self.target(request), Self.headers(request))
        let authorization = request.headerText("authorization")
        let refuse = { @Sendable in
            reference.perform { FeedAnswer(FeedRefusal.noOwner, of: feed).send(to: $0) }
        }
        let sent = send(
            feed, url, request.body, headers, authorization: authorization, isPull: isPull, wait: wait
        ) { result in
            switch result {
            case .success(let answer): reference.perform { answer.send(to: $0) }
            // Who waits no more has nobody to be answered, and may have begun anew.
            case .failure(.cancelled): break
            // Nothing was asked for, so nothing was handed out.
            case .failure(.notSent): refuse()
            case .failure:
                guard let consumer else { return refuse() }
                // Before the consumer hears of it: what it is handed next stays with it.
                giveBack(feed, url, headers, authorization: authorization, consumer: consumer) { refuse() }
            }
        }
        // Who waits no more is not handed anything there either.
        let cancel = { @Sendable in sent.cancel() }
        reference.perform(otherwise: cancel) { exchange in exchange.onClose = cancel }
    }

    /// Asks the gateway at an address what it was asked here. Called back once, from any thread; with nil where there is no good answer soon.
    ///
    /// - Returns: false where the request has come from another gateway: it is not passed on again.
    func ask(
        _ address: String, _ feed: FeedName, _ request: HTTPRequest,
        _ completion: @escaping @Sendable (FeedAnswer?) -> Void
    ) -> Bool {
        guard request.header(Self.header) == nil else { return false }
        send(
            feed, address + Self.target(request), method: "GET", [], Self.headers(request),
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
        _ feed: FeedName, _ url: String, _ headers: [(name: String, value: String)] = [], authorization: String?,
        consumer: String,
        _ completion: @escaping @Sendable () -> Void = {}
    ) {
        var body = JSONWriter(form: .plain)
        body.raw("{\"max\":0,\"resume\":true,\"consumer\":")
        body.writeString(consumer)
        body.raw("}")
        let wait = Self.givingBackMilliseconds - Self.patienceMilliseconds
        send(feed, url, body.bytes, headers, authorization: authorization, wait: wait) { _ in completion() }
    }

    /// Sends another gateway a request.
    ///
    /// A pull that waits takes a seat. Where no seat is free, it is sent as a pull that does not wait; where that brings no messages, the
    /// answer is 429, as that of the gateway that works the feed is when too many pulls wait there.
    ///
    /// - Parameter completion: called once, from any thread; with `cancelled` only after `cancel`.
    @discardableResult
    func send(
        _ feed: FeedName, _ url: String, method: String = "POST", _ body: [UInt8],
        _ headers: [(name: String, value: String)] = [],
        authorization: String?, isPull: Bool = false, wait: Milliseconds = 0,
        _ completion: @escaping @Sendable (Result<FeedAnswer, HTTPClientError>) -> Void
    ) -> ForwardedRequest {
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
        asked.group = feed.namespace
        asked.member = feed.name
        asked.isUrgent = !isPull
        let sent = ForwardedRequest()
        guard isPull, wait > 0 else {
            sent.send(asked, by: clients.prompt) { completion($0.map(Self.answer)) }
            return sent
        }
        // A seat is taken at once or not at all.
        asked.queueMilliseconds = 0
        sent.send(asked, by: clients.waiting) { [asked, clients] result in
            guard case .failure(.notSent) = result else { return completion(result.map(Self.answer)) }
            var prompt = asked
            prompt.queueMilliseconds = nil
            prompt.timeoutMilliseconds = Self.patienceMilliseconds
            prompt.body = Self.withoutWaiting(asked.body)
            sent.send(prompt, by: clients.prompt) { result in
                completion(
                    result.map { response in
                        Self.hasMessages(response) ? Self.answer(response) : FeedAnswer(.tooManyWaiting, of: feed)
                    })
            }
        }
        return sent
    }

    private static func answer(_ response: ClientResponse) -> FeedAnswer {
        var answer = FeedAnswer(status: response.status, response.body)
        answer.contentType = response.header("content-type")
        answer.retryAfter = response.header("retry-after").flatMap { Int($0) }
        return answer
    }

    /// Whether a response is anything but an empty list of messages.
    private static func hasMessages(_ response: ClientResponse) -> Bool {
        guard response.status == 200, response.body.count < 100 else { return true }
        return RawJSON(response.body).members?.first { $0.key == "messages" }?.value.elements?.isEmpty != true
    }

    /// The body of the same pull without the time to wait.
    static func withoutWaiting(_ body: [UInt8]) -> [UInt8] {
        guard let members = RawJSON(body).members else { return body }
        var writer = JSONWriter(form: .plain)
        writer.raw("{\"wait_ms\":0")
        for member in members where member.key != "wait_ms" {
            writer.raw(",")
            writer.writeString(member.key)
            writer.raw(":")
            writer.append(member.value.text)
        }
        writer.raw("}")
        return writer.bytes
    }

    // MARK: What is passed on

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
