import Feeds
import HTTPClient
import HTTPServer
import Runtime
import Tree
import Wire

/// The event streams of feeds on one loop: each asks for messages, sends them, and asks again when its reader has taken them.
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
        // A name that nobody else has: what the stream leaves goes back.
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
        // Whether there is such a feed, and where, is known before the answer begins.
        ask(stream)
    }

    // MARK: Asking

    private func ask(_ stream: FeedStream) {
        // HEAD only asks whether there is one: it takes nothing, and gives nothing back.
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
            goOn(stream)
        case .failure(let error):
            if case .elsewhere(let peer) = error.refusal, !stream.call.isForwarded {
                return askElsewhere(stream, peer)
            }
            refuse(stream, FeedAnswer(error.refusal, of: stream.feed))
        }
    }

    /// Answers a stream that has not begun. One that has is closed: its client comes back, and is answered then.
    private func refuse(_ stream: FeedStream, _ answer: FeedAnswer) {
        guard !stream.hasBegun else {
            // Else some clients come back at once, and again and again while no gateway works the feed.
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
        // Whether the other gateway works the feed, and answers, is known before the answer begins.
        let wait = stream.hasBegun ? Self.waitMilliseconds : 0
        let body = stream.pullBody(most: isHead ? 0 : Self.mostAtOnce, waitMilliseconds: wait)
        stream.forwarded = forwarding.send(
            call, "pull", body, to: peer, opening: isHead ? nil : opening, wait: wait
        ) { [link] result in
            // The stream is closed. What was handed out until the other gateway noticed goes back: not before this, or what comes
            // in between would be nobody's.
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
        // Gateways of the version before send none: then events have the ids of their messages.
        let ids = members.first { $0.key == "event_ids" }?.value.elements?.map(\.string) ?? []
        begin(stream)
        guard stream.exchange.isOpen else { return }
        stream.resumes = false
        for (index, message) in messages.enumerated() {
            let eventID = index < ids.count ? ids[index] : nil
            guard let id = eventID ?? message.members?.first(where: { $0.key == "id" })?.value.string else { continue }
            stream.exchange.send(FeedStream.event(id: id, message.text))
        }
        goOn(stream)
    }

    /// The other gateway has refused, or has not answered: what it may have handed out goes back before the client hears of it.
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
        identityWatch.add(stream.identity)
        services.metrics.streams.add(1)
        services.metrics.streamsOpened.add()
        stream.exchange.startStream(headers: [
            "Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
        ])
    }

    private func goOn(_ stream: FeedStream) {
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
        // What has come by then goes back when the cancelled request ends.
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

    /// Sends a sign of life to every stream that nothing waits for.
    func sendKeepAlives() {
        let bytes = SharedBytes(utf8: ": keep-alive\n\n")
        for stream in streams.values where stream.hasBegun && stream.exchange.queuedOutputBytes == 0 {
            stream.exchange.send(bytes)
        }
    }

    /// Ends the streams whose credentials hold no more.
    func endInvalidIdentities(now: Milliseconds = Clock.unixMilliseconds) {
        guard identityWatch.isDue(generation: authenticator.secrets.generation, now: now) else { return }
        for stream in streams.values {
            if authenticator.isValid(stream.identity, now: now) {
                identityWatch.add(stream.identity)
            } else {
                stream.exchange.close()
            }
        }
    }

    /// Closes all streams: their clients reconnect, elsewhere.
    func drain() {
        for stream in streams.values { stream.exchange.close() }
    }
}

/// One event stream of a feed: one consumer, whose messages are events. Belongs to its loop's thread.
final class FeedStream {
    let exchange: HTTPExchange
    /// Those of the feed's database.
    let feeds: FeedService
    let consumer: String
    /// Tells the messages that the consumer is handed by this connection from those of its others.
    let opening = FeedOpening()
    /// How many messages it may have that are not acknowledged.
    let most: Int
    let identity: Identity
    let call: FeedCall
    var feed: FeedName { call.feed }
    /// Whether the answer has begun: then it is known that there is such a feed.
    var hasBegun = false
    /// Where its feed is worked, when that is not here.
    var peer: FeedPeer?
    /// What waits for messages now: here, or where the feed is worked.
    var pull: FeedPull?
    var forwarded: ForwardedRequest?
    /// The next pull first gives back what the consumer still holds, up to a message acknowledged.
    var resumes = true
    let lastEventID: String?
    /// Whether the reader has to take what was sent first.
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

    /// A message as an event.
    static func event(id: String, _ json: [UInt8]) -> SharedBytes {
        // JSON that was written here has no line breaks.
        var bytes = Array("id: \(id)\nevent: message\ndata: ".utf8)
        bytes.reserveCapacity(bytes.count + json.count + 2)
        bytes += json
        bytes += [0x0A, 0x0A]
        return SharedBytes(bytes)
    }

    /// The body of a pull by which another gateway is asked.
    ///
    /// - Parameter most: 0 only asks whether there is such a feed, and changes nothing.
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
