import Feeds
import HTTPClient
import HTTPServer
import Runtime
import Tree
import Wire

/// Forwards requests to the gateway that runs their feed. Any thread.
struct FeedForwarding: Sendable {
    private let clients: FeedClients
    private let identity: ForwardingIdentity
    /// How long the other gateway may take in addition to the request's own wait. A frozen gateway must not delay
    /// clients longer.
    private static let patienceMilliseconds: Milliseconds = 3_000
    /// Timeout of returning messages. At most a client that is about to be refused waits for it.
    private static let givingBackMilliseconds: Milliseconds = 1_000
    /// Timeout of a question that this gateway could also answer without the other one.
    private static let askingMilliseconds: Milliseconds = 2_000
    /// Larger than any answer: about 4 MiB of messages, or one message, each byte of which may take six bytes in JSON.
    /// The messages of a longer answer would be lost until their deadline, again and again.
    private static let maxAnswerBytes = 1 << 30

    init(_ clients: FeedClients, _ identity: ForwardingIdentity) {
        self.clients = clients
        self.identity = identity
    }

    /// Answers a request that this gateway can't serve itself, with the other gateway's answer or with the refusal.
    ///
    /// - Parameters:
    ///   - verb: the end of the request's path.
    ///   - wait: how long the request itself waits.
    ///   - consumer: the consumer that requests messages.
    ///   - opening: the connection to which the other gateway delivers messages; nil for a request without messages.
    ///     Messages that do not reach the client return to the feed, without counting as an attempt.
    func forward(
        _ call: FeedCall, _ verb: String, _ body: [UInt8], _ reference: ExchangeReference, _ refusal: FeedRefusal,
        wait: Milliseconds = 0, consumer: String = "", opening: FeedOpening? = nil
    ) {
        // A forwarded request is not forwarded again: the feed has moved meanwhile.
        guard case .elsewhere(let peer) = refusal, !call.isForwarded else {
            let answer = FeedAnswer(refusal, of: call.feed)
            return reference.perform { answer.send(to: $0) }
        }
        let refuse = { @Sendable in
            reference.perform { FeedAnswer(FeedRefusal.noOwner, of: call.feed).send(to: $0) }
        }
        // Returns only the messages of this request: the consumer may have others in flight, or have reconnected.
        let returnMessages: @Sendable () -> Void = {
            if let opening { giveBack(call, to: peer, consumer: consumer, opening) }
        }
        let sent = send(call, verb, body, to: peer, opening: opening, wait: wait) { result in
            switch result {
            case .success(let answer):
                let unsent: @Sendable () -> Void = { if answer.status == 200 { returnMessages() } }
                // An answer that exceeds the output budget does not reach the client.
                reference.perform(otherwise: unsent) { if !answer.send(to: $0) { unsent() } }
                // The other gateway may have delivered messages that its answer does not contain.
                if answer.status == 503 { returnMessages() }
            // The client has disconnected. The other gateway's answer may have been in flight.
            case .failure(.cancelled): returnMessages()
            // The request was not sent, so no messages were delivered.
            case .failure(.notSent): refuse()
            case .failure:
                returnMessages()
                refuse()
            }
        }
        // The other gateway must not deliver messages to a client that has disconnected.
        let cancel = { @Sendable in sent.cancel() }
        reference.perform(otherwise: cancel) { exchange in exchange.onClose = cancel }
    }

    /// Asks the gateway that runs a feed for its status. Calls back once, on any thread; with nil if there is no
    /// successful answer in time.
    ///
    /// - Returns: false if another gateway forwarded the request, which then is not forwarded again.
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

    /// Makes another gateway return all messages that a consumer holds to the feed. If the request fails, the messages
    /// return at their deadlines.
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

    /// Sends a request to another gateway.
    ///
    /// A pull that waits takes a slot. If no slot is free, it is sent as a pull that does not wait. If that returns no
    /// messages, the answer is 429, as when too many pulls wait at the gateway that runs the feed.
    ///
    /// - Parameters:
    ///   - verb: the end of the request's path.
    ///   - isPull: whether the request is for messages. All other requests of a feed take precedence over pulls. The
    ///     default depends on `verb`.
    ///   - completion: called once, on any thread; with `cancelled` only after `cancel`.
    @discardableResult
    func send(
        _ call: FeedCall, _ verb: String, method: String = "POST", _ body: [UInt8], to peer: FeedPeer,
        opening: FeedOpening? = nil, isPull: Bool? = nil, wait: Milliseconds = 0,
        _ completion: @escaping @Sendable (Result<FeedAnswer, HTTPClientError>) -> Void
    ) -> ForwardedRequest {
        let isPull = isPull ?? (verb == "pull")
        let make = { @Sendable [identity] (body: [UInt8], wait: Milliseconds) in
            // A signature is valid for one request with one body.
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
        // A slot is taken at once or not at all.
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

    /// Returns whether a response is anything but an empty list of messages.
    private static func hasMessages(_ response: ClientResponse) -> Bool {
        guard response.status == 200, response.body.count < 100 else { return true }
        return RawJSON(response.body).members?.first { $0.key == "messages" }?.value.elements?.isEmpty != true
    }

    /// Returns the body of the same pull with a wait of zero.
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
