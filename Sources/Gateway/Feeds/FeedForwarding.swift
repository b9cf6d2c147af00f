import Feeds
import HTTPClient
import HTTPServer
import Runtime
import Tree
import Wire

/// Passes requests on to the gateway that works their feed. Any thread.
struct FeedForwarding: Sendable {
    private let clients: FeedClients
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

    init(_ clients: FeedClients, _ identity: ForwardingIdentity) {
        self.clients = clients
        self.identity = identity
    }

    /// Answers a request that this gateway can't serve itself: by the other gateway's answer, or with why not.
    ///
    /// - Parameters:
    ///   - verb: the end of the request's path.
    ///   - wait: how long the request itself waits.
    ///   - consumer: the consumer that asks for messages.
    ///   - opening: the connection by which the other gateway hands it messages; nil for a request that is handed none. Messages that do
    ///     not reach the client go back to the feed, and that was no attempt.
    func forward(
        _ call: FeedCall, _ verb: String, _ body: [UInt8], _ reference: ExchangeReference, _ refusal: FeedRefusal,
        wait: Milliseconds = 0, consumer: String = "", opening: FeedOpening? = nil
    ) {
        // One that was passed on is not passed on again: the feed has moved meanwhile.
        guard case .elsewhere(let peer) = refusal, !call.isForwarded else {
            let answer = FeedAnswer(refusal, of: call.feed)
            return reference.perform { answer.send(to: $0) }
        }
        let refuse = { @Sendable in
            reference.perform { FeedAnswer(FeedRefusal.noOwner, of: call.feed).send(to: $0) }
        }
        // Only what this request was handed: the consumer may have others under way, and have begun anew.
        let returnMessages: @Sendable () -> Void = {
            if let opening { giveBack(call, to: peer, consumer: consumer, opening) }
        }
        let sent = send(call, verb, body, to: peer, opening: opening, wait: wait) { result in
            switch result {
            case .success(let answer):
                let unsent: @Sendable () -> Void = { if answer.status == 200 { returnMessages() } }
                // An answer for which there is no room reaches no client.
                reference.perform(otherwise: unsent) { if !answer.send(to: $0) { unsent() } }
                // The other gateway may have handed messages out that its answer does not have.
                if answer.status == 503 { returnMessages() }
            // The client is gone. The other gateway's answer may have been on its way.
            case .failure(.cancelled): returnMessages()
            // Nothing was asked for, so nothing was handed out.
            case .failure(.notSent): refuse()
            case .failure:
                returnMessages()
                refuse()
            }
        }
        // Who waits no more is not handed anything there either.
        let cancel = { @Sendable in sent.cancel() }
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
        _ call: FeedCall, to peer: FeedPeer, consumer: String, _ opening: FeedOpening?,
        _ completion: @escaping @Sendable () -> Void = {}
    ) {
        var body = JSONWriter(form: .plain)
        body.raw("{\"max\":0,\"resume\":true,\"consumer\":")
        body.writeString(consumer)
        body.raw("}")
        let wait = Self.givingBackMilliseconds - Self.patienceMilliseconds
        send(call, "pull", body.bytes, to: peer, opening: opening, isPull: false, wait: wait) { _ in completion() }
    }

    /// Sends another gateway a request.
    ///
    /// A pull that waits takes a seat. Where no seat is free, it is sent as a pull that does not wait; where that brings no messages, the
    /// answer is 429, as that of the gateway that works the feed is when too many pulls wait there.
    ///
    /// - Parameters:
    ///   - verb: the end of the request's path.
    ///   - isPull: whether it asks for messages. All other requests of a feed go before those that do. By default as `verb` says.
    ///   - completion: called once, from any thread; with `cancelled` only after `cancel`.
    @discardableResult
    func send(
        _ call: FeedCall, _ verb: String, method: String = "POST", _ body: [UInt8], to peer: FeedPeer,
        opening: FeedOpening? = nil, isPull: Bool? = nil, wait: Milliseconds = 0,
        _ completion: @escaping @Sendable (Result<FeedAnswer, HTTPClientError>) -> Void
    ) -> ForwardedRequest {
        let isPull = isPull ?? (verb == "pull")
        let make = { @Sendable [identity] (body: [UInt8], wait: Milliseconds) in
            // A seal is for one request and one body.
            var asked = call.request(verb, method: method, body, to: peer, identity, opening: opening)
            asked.timeoutMilliseconds = wait + Self.patienceMilliseconds
            asked.connectTimeoutMilliseconds = 2_000
            asked.maxResponseBytes = Self.maxAnswerBytes
            asked.group = call.feed.namespace
            asked.member = call.feed.name
            asked.isUrgent = !isPull
            return asked
        }
        let sent = ForwardedRequest()
        var asked = make(body, wait)
        guard isPull, wait > 0 else {
            sent.send(asked, by: clients.prompt) { completion($0.map(Self.answer)) }
            return sent
        }
        // A seat is taken at once or not at all.
        asked.queueMilliseconds = 0
        sent.send(asked, by: clients.waiting) { [clients] result in
            guard case .failure(.notSent) = result else { return completion(result.map(Self.answer)) }
            sent.send(make(Self.withoutWaiting(body), 0), by: clients.prompt) { result in
                completion(
                    result.map { response in
                        Self.hasMessages(response)
                            ? Self.answer(response) : FeedAnswer(.tooManyWaiting, of: call.feed)
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
}
