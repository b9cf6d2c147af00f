import Engine
import HTTPServer
import Placement
import Runtime
import Wire

/// A loop's event streams: opens them, keeps them alive, and ends them. One for each loop.
final class StreamHub: GroupSubscriber {
    private let services: LoopServices
    private let groups: ListenerGroups
    private let authenticator: Authenticator
    private let streams: ListenerTable<Stream>
    private let opener: StreamOpener
    private let link: LoopLink<StreamHub>
    /// Determines when the credentials of open streams have to be checked again.
    private var identityWatch = IdentityWatch()

    init(_ services: LoopServices, _ databases: Databases, _ groups: ListenerGroups, _ authenticator: Authenticator) {
        self.services = services
        self.groups = groups
        self.authenticator = authenticator
        streams = ListenerTable(
            services.loop, bufferBytes: services.settings.streamBufferBytes, delivered: services.metrics.streamEvents)
        opener = StreamOpener(services, databases, streams)
        link = LoopLink(services.loop)
        link.lead(to: self)
    }

    /// Opens an event stream: subscribes, then sends the value, or the events that the client missed. Answers 503 if
    /// there are too many streams.
    func open(_ request: StreamRequest, _ namespace: LiveNamespace, _ exchange: HTTPExchange) {
        guard services.metrics.streams.current < services.settings.maxStreams else {
            return services.responder.respond(
                RESTError(503, "Too many streams are open"), to: exchange, retryAfter: 5)
        }
        let key = ListenerKey(
            namespace: namespace.key, path: request.path, query: request.query,
            encoding: .events(request.form, withIDs: request.hasIDs))
        let (group, snapshot) = groups.join(key, namespace, link)
        let stream = Stream(
            exchange, group, request.identity, seq: snapshot.seq, resumeID: request.lastEventID, opener)
        identityWatch.add(request.identity, isValid: authenticator.isValid(request.identity))
        streams.add(stream)
        services.metrics.streams.add(1)
        services.metrics.streamsOpened.add()
        exchange.startStream(headers: [
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": "no-cache",
            "X-Accel-Buffering": "no",
            "X-Pathmirror-Seq": "\(snapshot.seq)",
        ])
        let id = exchange.id
        exchange.onClose = { [weak self] in self?.closed(id, group) }
        // Uses the id, because retaining an object with weak references is slower.
        exchange.onDrain = { [weak self] in self?.streams.find(id, in: ObjectIdentifier(group))?.drained() }
        opener.begin(stream, snapshot)
    }

    private func closed(_ id: UInt64, _ group: ListenerGroup) {
        guard let stream = streams.remove(id, from: ObjectIdentifier(group)) else { return }
        stream.closed()
        services.metrics.streams.add(-1)
        groups.leave(group, link)
    }

    func hear(_ news: GroupMessage, from group: ObjectIdentifier) { streams.hear(news, from: group) }

    // MARK: Time

    /// Sends a keep-alive to every live stream with an empty output queue.
    func sendKeepAlives() {
        let bytes = SharedBytes(StreamEvent.keepAlive)
        for stream in streams.all where stream.isLive && stream.exchange.queuedOutputBytes == 0 {
            stream.exchange.send(bytes)
        }
    }

    /// Ends streams whose readers lost access by data elsewhere or by time, some in each slice of the loop's time.
    func sweep(then completion: @escaping @Sendable () -> Void) {
        link.inSlices(streams.groupIDs, of: self) { hub, group in
            hub.streams.recheck(group)
        } then: { _ in
            completion()
        }
    }

    /// Ends the streams whose credentials are no longer valid.
    func endInvalidIdentities(now: Milliseconds = Clock.unixMilliseconds) {
        guard identityWatch.isDue(generation: authenticator.secrets.generation, now: now) else { return }
        for stream in streams.all {
            if authenticator.isValid(stream.identity, now: now) {
                identityWatch.add(stream.identity, isValid: true)
            } else {
                stream.end(with: StreamEvent.authRevoked)
            }
        }
    }

    /// Closes all streams. Their clients reconnect to another gateway (reference: rtdb-protocol 1.4).
    func drain() {
        for stream in streams.all { stream.exchange.close() }
    }
}
