import Feeds
import HTTPClient
import HTTPServer
import Runtime
import Tree
import Wire

/// The event streams of feeds on one loop: each requests messages, sends them, and requests more when its client has
/// read them.
final class FeedStreams {
    private let services: LoopServices
    private let forwarding: FeedForwarding
    private let authenticator: Authenticator
    private var streams: [UInt64: FeedStream] = [:]
    private var identityWatch = IdentityWatch()
    private let link: LoopLink<FeedStreams>
    private static let waitMilliseconds: Milliseconds = 20_000
    private static let mostAtOnce = 100

    init(
        _ services: LoopServices, _ forwarding: FeedForwarding, _ authenticator: Authenticator
    ) {
        self.services = services
        self.forwarding = forwarding
        self.authenticator = authenticator
        link = LoopLink(services.loop)
        link.lead(to: self)
    }

    func open(
        _ feeds: FeedService, _ call: FeedCall, _ request: HTTPRequest, _ exchange: HTTPExchange, _ identity: Identity
    ) throws(RESTError) {
        guard services.metrics.streams.current < services.settings.maxStreams else {
            return services.responder.respond(
                RESTError(503, "Too many streams are open"), to: exchange, retryAfter: 5)
        }
        let query = FeedQuery(request.query)
        let most = try query.number("max", 1...1_000) ?? 100
        // A unique name: the messages that the stream does not acknowledge return to the feed.
        let consumer = query["consumer"] ?? "stream-\(String(UInt64.random(in: 0 ... .max), radix: 36))"
        guard consumer.utf8.count <= FeedBodies.Limits.consumerBytes else {
            throw RESTError(400, "consumer must be a string of at most \(FeedBodies.Limits.consumerBytes) bytes")
        }
        let lastEventID = request.headerText("last-event-id")
        guard (lastEventID ?? "").utf8.count <= FeedBodies.Limits.idBytes else {
            throw RESTError(400, "Last-Event-ID must be the id of a message")
        }
        let stream = FeedStream(
            exchange, call, of: feeds, consumer: consumer, most: most, identity, lastEventID: lastEventID)
        let id = exchange.id
        streams[id] = stream
        exchange.endsWithInput = true
        exchange.onClose = { [weak self] in self?.closed(id) }
        exchange.onDrain = { [weak self] in self?.drained(id) }
        // The pull finds out whether and where the feed exists, before the answer begins.
        ask(stream)
    }

    // MARK: Pulls

    private func ask(_ stream: FeedStream) {
        // HEAD only checks that the feed exists: it neither takes nor returns messages.
        let isHead = stream.exchange.isHead
        let feeds = stream.feeds
        let access = stream.call.access
        let id = stream.exchange.id
        let feed = stream.feed
        stream.pull = feeds.pull(
            feed, as: access, consumer: stream.consumer, opening: isHead ? nil : stream.opening,
            isFirst: stream.resumes && !isHead, after: stream.lastEventID,
            most: isHead ? 0 : min(stream.most, Self.mostAtOnce), mostHeld: stream.most,
            waitMilliseconds: stream.hasBegun ? Self.waitMilliseconds : 0
        ) { [link] result in
            link.post { hub in
                guard let stream = hub.streams[id], stream.exchange.isOpen else {
                    if case .success(let deliveries) = result, !deliveries.isEmpty {
                        feeds.unsent(deliveries, feed)
                    }
                    return
                }
                hub.answered(stream, result)
            }
        }
    }

    private func answered(_ stream: FeedStream, _ result: Result<[FeedDelivery], FeedRefusalError>) {
        stream.pull = nil
        switch result {
        case .success(let deliveries):
            stream.peer = nil
            begin(stream)
            guard stream.exchange.isOpen else { return }
            stream.resumes = false
            for delivery in deliveries {
                stream.exchange.send(FeedStream.event(id: delivery.eventID, delivery.json))
            }
            resume(stream)
        case .failure(let error):
            if case .elsewhere(let peer) = error.refusal, !stream.call.isForwarded {
                return askElsewhere(stream, peer)
            }
            refuse(stream, FeedAnswer(error.refusal, of: stream.feed))
        }
    }

    /// Answers a stream that has not begun. A stream that has begun is closed; its client reconnects and gets the
    /// answer then.
    private func refuse(_ stream: FeedStream, _ answer: FeedAnswer) {
        guard !stream.hasBegun else {
            // Without the hint some clients reconnect at once, again and again, while no gateway runs the feed.
            stream.exchange.send(Self.retryHint)
            return stream.exchange.close()
        }
        streams[stream.exchange.id] = nil
        answer.send(to: stream.exchange)
    }

    private static let retryHint = SharedBytes(utf8: "retry: 2000\n\n")

    private func askElsewhere(_ stream: FeedStream, _ peer: FeedPeer) {
        stream.peer = peer
        let id = stream.exchange.id
        let (call, consumer, opening) = (stream.call, stream.consumer, stream.opening)
        let isHead = stream.exchange.isHead
        let giveBack = { @Sendable [forwarding] in
            if !isHead { forwarding.giveBack(call, to: peer, consumer: consumer, opening) }
        }
        // The answer begins only after the other gateway has confirmed that it runs the feed.
        let wait = stream.hasBegun ? Self.waitMilliseconds : 0
        let body = stream.pullBody(most: isHead ? 0 : Self.mostAtOnce, waitMilliseconds: wait)
        stream.forwarded = forwarding.send(
            call, "pull", body, to: peer, opening: isHead ? nil : opening, wait: wait
        ) { [link] result in
            // The stream is closed. Messages that the other gateway delivered until then return to the feed. This
            // happens only after the request has ended, because messages delivered in between would be lost until their
            // deadline.
            if case .failure(.cancelled) = result { return giveBack() }
            link.post { hub in
                guard let stream = hub.streams[id] else { return giveBack() }
                stream.forwarded = nil
                hub.answeredElsewhere(stream, peer, try? result.get())
            }
        }
    }

    private func answeredElsewhere(_ stream: FeedStream, _ peer: FeedPeer, _ answer: FeedAnswer?) {
        guard stream.exchange.isOpen else { return }
        guard let answer, answer.status == 200, let members = RawJSON(answer.body).members,
            let messages = members.first(where: { $0.key == "messages" })?.value.elements
        else { return refuse(stream, peer, answer) }
        // Gateways of the previous version send no event ids: then events have the ids of their messages.
        let ids = members.first { $0.key == "event_ids" }?.value.elements?.map(\.string) ?? []
        begin(stream)
        guard stream.exchange.isOpen else { return }
        stream.resumes = false
        for (index, message) in messages.enumerated() {
            let eventID = index < ids.count ? ids[index] : nil
            guard let id = eventID ?? message.members?.first(where: { $0.key == "id" })?.value.string else { continue }
            stream.exchange.send(FeedStream.event(id: id, message.text))
        }
        resume(stream)
    }

    /// Handles a refusal or a missing answer of the other gateway. Returns the messages that it may have delivered
    /// before the client gets the error.
    private func refuse(_ stream: FeedStream, _ peer: FeedPeer, _ answer: FeedAnswer?) {
        if let answer, answer.status >= 400 { return refuse(stream, answer) }
        let noOwner = FeedAnswer(FeedRefusal.noOwner, of: stream.feed)
        guard !stream.hasBegun, !stream.exchange.isHead else { return refuse(stream, noOwner) }
        let id = stream.exchange.id
        forwarding.giveBack(stream.call, to: peer, consumer: stream.consumer, stream.opening) { [link] in
            link.post { hub in
                guard let stream = hub.streams[id], stream.exchange.isOpen else { return }
                hub.refuse(stream, noOwner)
            }
        }
    }

    /// Begins the answer, the first time.
    private func begin(_ stream: FeedStream) {
        guard !stream.hasBegun else { return }
        stream.hasBegun = true
        identityWatch.add(stream.identity, isValid: authenticator.isValid(stream.identity))
        services.metrics.streams.add(1)
        services.metrics.streamsOpened.add()
        stream.exchange.startStream(headers: [
            "Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
        ])
    }

    private func resume(_ stream: FeedStream) {
        guard stream.exchange.queuedOutputBytes <= services.settings.streamBufferBytes else {
            stream.isFull = true
            return
        }
        ask(stream)
    }

    private func drained(_ id: UInt64) {
        guard let stream = streams[id], stream.isFull else { return }
        stream.isFull = false
        ask(stream)
    }

    private func closed(_ id: UInt64) {
        guard let stream = streams.removeValue(forKey: id) else { return }
        if stream.hasBegun { services.metrics.streams.add(-1) }
        if let pull = stream.pull { stream.feeds.cancel(pull) }
        // Messages that have arrived by then return to the feed when the cancelled request ends.
        if let forwarded = stream.forwarded { return forwarded.cancel() }
        guard stream.hasBegun, !stream.exchange.isHead else { return }
        if let peer = stream.peer {
            forwarding.giveBack(stream.call, to: peer, consumer: stream.consumer, stream.opening)
        } else {
            stream.feeds.release(
                stream.feed, as: stream.call.access, consumer: stream.consumer, stream.opening)
        }
    }

    // MARK: Time

    /// Sends a keep-alive to every stream with an empty output queue.
    func sendKeepAlives() {
        let bytes = SharedBytes(utf8: ": keep-alive\n\n")
        for stream in streams.values where stream.hasBegun && stream.exchange.queuedOutputBytes == 0 {
            stream.exchange.send(bytes)
        }
    }

    /// Ends the streams whose credentials are no longer valid.
    func endInvalidIdentities(now: Milliseconds = Clock.unixMilliseconds) {
        guard identityWatch.isDue(generation: authenticator.secrets.generation, now: now) else { return }
        for stream in streams.values {
            if authenticator.isValid(stream.identity, now: now) {
                identityWatch.add(stream.identity, isValid: true)
            } else {
                stream.exchange.close()
            }
        }
    }

    /// Closes all streams. Their clients reconnect to another gateway.
    func drain() {
        for stream in streams.values { stream.exchange.close() }
    }
}

/// One event stream of a feed: one consumer, with one event for each message. Belongs to its loop's thread.
final class FeedStream {
    let exchange: HTTPExchange
    /// The feeds of the feed's database.
    let feeds: FeedService
    let consumer: String
    /// Distinguishes the messages that the consumer receives on this connection from those on its other connections.
    let opening = FeedOpening()
    /// Maximum number of unacknowledged messages.
    let most: Int
    let identity: Identity
    let call: FeedCall
    var feed: FeedName { call.feed }
    /// Whether the answer has begun, which implies that the feed exists.
    var hasBegun = false
    /// The gateway that runs the feed, if it is another one.
    var peer: FeedPeer?
    /// The waiting request for messages: here, or at the gateway that runs the feed.
    var pull: FeedPull?
    var forwarded: ForwardedRequest?
    /// Whether the next pull first returns the messages that the consumer still holds, and acknowledges those up to
    /// `lastEventID`.
    var resumes = true
    let lastEventID: String?
    /// Whether the stream waits until the client has read its queued bytes.
    var isFull = false

    init(
        _ exchange: HTTPExchange, _ call: FeedCall, of feeds: FeedService, consumer: String, most: Int,
        _ identity: Identity, lastEventID: String?
    ) {
        self.exchange = exchange
        self.call = call
        self.feeds = feeds
        self.consumer = consumer
        self.most = most
        self.identity = identity
        self.lastEventID = lastEventID
    }

    /// Returns a message as an event.
    static func event(id: String, _ json: [UInt8]) -> SharedBytes {
        // The JSON encoder writes no line breaks.
        var bytes = Array("id: \(id)\nevent: message\ndata: ".utf8)
        bytes.reserveCapacity(bytes.count + json.count + 2)
        bytes += json
        bytes += [0x0A, 0x0A]
        return SharedBytes(bytes)
    }

    /// Returns the body of a pull for another gateway.
    ///
    /// - Parameter most: maximum number of messages. 0 only checks that the feed exists, and changes nothing.
    func pullBody(most: Int, waitMilliseconds: Milliseconds) -> [UInt8] {
        var pull = FeedBodies.Pull()
        pull.most = most
        pull.waitMilliseconds = waitMilliseconds
        pull.consumer = consumer
        pull.mostHeld = self.most
        pull.resumes = resumes && most > 0
        pull.after = pull.resumes ? lastEventID : nil
        return pull.forwarded
    }
}
