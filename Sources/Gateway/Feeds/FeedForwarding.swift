import Feeds
import HTTPClient
import HTTPServer
import Runtime
import Tree
import Wire

/// Passes requests on to the gateway that works their feed. Any thread.
struct FeedForwarding: Sendable {
    private let client: HTTPClient
    private let identity: ForwardingIdentity
    /// How long the other gateway may take beyond what the request waits for: one that is frozen is not waited for.
    private static let patienceMilliseconds: Milliseconds = 3_000
    /// How long it may take for what nobody waits for but who has been refused.
    private static let givingBackMilliseconds: Milliseconds = 1_000
    /// How long a question may take that can be answered without the other gateway, too.
    private static let askingMilliseconds: Milliseconds = 2_000
    /// More than any answer has: about 4 MiB of messages, or one message, of which each byte may be six as JSON. What is longer
    /// would be lost until its deadline, again and again.
    private static let maxAnswerBytes = 1 << 30

    init(_ client: HTTPClient, _ identity: ForwardingIdentity) {
        self.client = client
        self.identity = identity
    }

    /// Answers a request that this gateway can't serve itself: by the other gateway's answer, or with why not.
    ///
    /// - Parameters:
    ///   - verb: the end of the request's path.
    ///   - wait: how long the request itself waits.
    ///   - consumer: who asks for messages having given back what it held; nil for everything else. What an answer had that does
    ///     not arrive is all that such a consumer can hold, and goes back too.
    func forward(
        _ call: FeedCall, _ verb: String, _ body: [UInt8], _ reference: ExchangeReference, _ refusal: FeedRefusal,
        wait: Milliseconds = 0, resumed consumer: String? = nil
    ) {
        // One that was passed on is not passed on again: the feed has moved meanwhile.
        guard case .elsewhere(let peer) = refusal, !call.isForwarded else {
            let answer = FeedAnswer(refusal, of: call.feed)
            return reference.perform { answer.send(to: $0) }
        }
        let refuse = { @Sendable in
            reference.perform { FeedAnswer(FeedRefusal.noOwner, of: call.feed).send(to: $0) }
        }
        let id = send(call, verb, body, to: peer, wait: wait) { result in
            switch result {
            case .success(let answer): reference.perform { answer.send(to: $0) }
            // Who waits no more has nobody to be answered, and may have begun anew.
            case .failure(.cancelled): break
            case .failure:
                guard let consumer else { return refuse() }
                // Before the consumer hears of it: what it is handed next stays with it.
                giveBack(call, to: peer, consumer: consumer) { refuse() }
            }
        }
        // Who waits no more is not handed anything there either.
        let cancel = { @Sendable in self.cancel(id) }
        reference.perform(otherwise: cancel) { exchange in exchange.onClose = cancel }
    }

    /// Asks the gateway that works a feed for its status. Called back once, from any thread; with nil where there is no good answer soon.
    ///
    /// - Returns: false where the request has come from another gateway: it is not passed on again.
    func askStatus(_ call: FeedCall, of peer: FeedPeer, _ completion: @escaping @Sendable (FeedAnswer?) -> Void) -> Bool
    {
        guard !call.isForwarded else { return false }
        let wait = Self.askingMilliseconds - Self.patienceMilliseconds
        send(call, "status", method: "GET", [], to: peer, wait: wait) { result in
            guard case .success(let answer) = result, answer.status == 200 else { return completion(nil) }
            completion(answer)
        }
        return true
    }

    /// Has another gateway take back whatever a consumer holds. Soon, or not at all: then deadlines do it.
    func giveBack(
        _ call: FeedCall, to peer: FeedPeer, consumer: String, _ completion: @escaping @Sendable () -> Void = {}
    ) {
        var body = JSONWriter(form: .plain)
        body.raw("{\"max\":0,\"resume\":true,\"consumer\":")
        body.writeString(consumer)
        body.raw("}")
        let wait = Self.givingBackMilliseconds - Self.patienceMilliseconds
        send(call, "pull", body.bytes, to: peer, wait: wait) { _ in completion() }
    }

    /// Sends another gateway a request.
    ///
    /// - Parameter completion: called once, from any thread; with `cancelled` only after `cancel`.
    @discardableResult
    func send(
        _ call: FeedCall, _ verb: String, method: String = "POST", _ body: [UInt8], to peer: FeedPeer,
        wait: Milliseconds = 0, _ completion: @escaping @Sendable (Result<FeedAnswer, HTTPClientError>) -> Void
    ) -> HTTPClient.RequestID {
        var asked = call.request(verb, method: method, body, to: peer, identity)
        asked.timeoutMilliseconds = wait + Self.patienceMilliseconds
        asked.connectTimeoutMilliseconds = 2_000
        asked.maxResponseBytes = Self.maxAnswerBytes
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
}
