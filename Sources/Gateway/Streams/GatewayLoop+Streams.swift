import Engine
import HTTPServer
import Runtime
import Tree
import Wire

extension GatewayLoop {
    /// Opens an event stream: subscribes, then sends the value, or what the client has missed since its last event.
    func openStream(_ call: Call, _ namespace: LiveNamespace) {
        guard let link else { return }
        if let refusal = readRefusal(call, namespace.snapshot) { return respond(refusal, to: call.exchange) }
        if call.parameters.isShallow || call.parameters.callback != nil {
            return respond(RESTError(400, "shallow and callback are not supported on streams"), to: call.exchange)
        }
        guard gateway.metrics.streams.current < gateway.settings.maxStreams else {
            return respond(RESTError(503, "Too many streams are open"), to: call.exchange, retryAfter: 5)
        }
        let key = ListenerKey(
            namespace: namespace.id, path: call.path, query: call.parameters.query,
            encoding: .events(call.parameters.form))
        let (group, snapshot) = gateway.listeners.join(key, namespace, link)
        let stream = Stream(call.exchange, group, call.identity, seq: snapshot.seq)
        stream.resumeID = call.request.headerText("last-event-id")
        identityWatch.add(call.identity)
        streams[ObjectIdentifier(group), default: [:]][call.exchange.id] = stream
        gateway.metrics.streams.add(1)
        gateway.metrics.streamsOpened.add()
        call.exchange.startStream(headers: [
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": "no-cache",
            "X-Accel-Buffering": "no",
            "X-Pathmirror-Seq": "\(snapshot.seq)",
        ])
        let id = call.exchange.id
        call.exchange.onClose = { [weak self] in self?.closed(id, group) }
        // By its id: an object that is referred to weakly is slower to retain ever after.
        call.exchange.onDrain = { [weak self] in
            guard let self, let stream = self.streams[ObjectIdentifier(group)]?[id] else { return }
            self.drained(stream)
        }
        begin(stream, snapshot)
    }

    /// Sends a `put` of the whole value, encoded here or, where it is large, on a worker.
    func sendFirstValue(_ stream: Stream, _ snapshot: Snapshot) {
        let group = stream.group
        guard group.value(in: snapshot).rowCount > gateway.settings.heavyRows else {
            return begin(stream, with: [group.initialEvent(snapshot)], at: snapshot.seq)
        }
        guard let link else { return }
        let id = stream.exchange.id
        let isQueued = gateway.workers.submit {
            let bytes = group.initialEvent(snapshot)
            link.post { $0.firstValueEncoded(bytes, snapshot.seq, id, group) }
        }
        // The client comes back by itself.
        if !isQueued { stream.exchange.close() }
    }

    private func firstValueEncoded(_ bytes: SharedBytes, _ seq: Int64, _ id: UInt64, _ group: ListenerGroup) {
        guard let stream = streams[ObjectIdentifier(group)]?[id] else { return }
        begin(stream, with: [bytes], at: seq)
    }

    /// Sends a stream its first value, or what it has missed. If more has been dropped meanwhile, the value follows anew as
    /// soon as the client has taken this: it makes progress however fast things change.
    func begin(_ stream: Stream, with bytes: [SharedBytes], at seq: Int64) {
        stream.begin(with: bytes, at: seq)
        if case .conflated = stream.state, stream.exchange.queuedOutputBytes == 0 { drained(stream) }
    }

    // MARK: Events

    /// Hands encoded events to this loop's streams of a group. Before a stream is sent anything its reader is judged anew:
    /// the same pass does both, as there may be thousands.
    func deliver(_ encoded: EncodedEvents, to group: ObjectIdentifier) {
        guard let members = streams[group], var check = members.first.map({ ReaderCheck($0.value.group) }) else {
            return
        }
        let bufferBytes = gateway.settings.streamBufferBytes
        gateway.metrics.streamEvents.add(members.count * encoded.events.count)
        for stream in members.values {
            guard mayGoOn(stream, &check) else { continue }
            if !stream.receive(encoded, bufferBytes: bufferBytes) { conflate(stream) }
        }
    }

    /// What was between is not known: every stream of the group begins again with a `put`.
    func restart(group: ObjectIdentifier, from snapshot: Snapshot) {
        guard let members = streams[group] else { return }
        for stream in members.values {
            switch stream.state {
            case .live: sendValueAnew(stream, snapshot)
            // A value that is on its way may be of a history that is no more, with a seq beyond this one's.
            case .opening: stream.reopen(at: .max)
            // Begins again anyway, as soon as the client has caught up.
            case .conflated, .closed: break
            }
        }
    }

    /// Closes the group's streams: their clients come back to what has the namespace's name by then.
    func endStreams(of group: ObjectIdentifier) {
        for stream in streams[group].map({ Array($0.values) }) ?? [] { stream.exchange.close() }
    }

    private func sendValueAnew(_ stream: Stream, _ snapshot: Snapshot) {
        stream.reopen(at: snapshot.seq)
        sendFirstValue(stream, snapshot)
    }

    private func conflate(_ stream: Stream) {
        gateway.metrics.conflations.add()
        // A value is on its way; `begin` will see that it is not the last.
        if case .opening = stream.state { return stream.reopen(at: stream.group.namespace.snapshot.seq) }
        stream.exchange.dropQueuedOutput()
        stream.state = .conflated
        // What is partly sent goes out first; `drained` follows, unless nothing is left to wait for.
        if stream.exchange.queuedOutputBytes == 0 { drained(stream) }
    }

    private func drained(_ stream: Stream) {
        guard case .conflated = stream.state else { return }
        sendValueAnew(stream, stream.group.namespace.snapshot)
    }

    /// Ends the streams of readers whom a change of rules or data has shut out (reference: rtdb-protocol 3.5 and 8).
    func recheckReaders(of group: ObjectIdentifier) {
        guard let members = streams[group], let first = members.first?.value else { return }
        let check = ReaderCheck(first.group)
        // Where the rules are steady, most have nothing to be judged again by.
        inSlices(members.values.filter { !check.holds($0.judgedBy) }.map(\.exchange.id)) { loop, id in
            guard let stream = loop.streams[group]?[id] else { return }
            var check = ReaderCheck(stream.group)
            _ = loop.mayGoOn(stream, &check)
        }
    }

    /// Judges a stream's reader, and ends the stream of one who is shut out.
    func mayGoOn(_ stream: Stream, _ check: inout ReaderCheck) -> Bool {
        if check.holds(stream.judgedBy) { return true }
        guard check.mayRead(stream.identity.context) else {
            stream.end(with: StreamEvent.cancel)
            return false
        }
        stream.judgedBy = check.rules
        return true
    }

    func sendKeepAlives() {
        let bytes = SharedBytes(StreamEvent.keepAlive)
        for group in streams.values {
            for stream in group.values where stream.exchange.queuedOutputBytes == 0 {
                if case .live = stream.state { stream.exchange.send(bytes) }
            }
        }
    }

    private func closed(_ id: UInt64, _ group: ListenerGroup) {
        guard let stream = streams[ObjectIdentifier(group)]?.removeValue(forKey: id) else { return }
        stream.state = .closed
        if streams[ObjectIdentifier(group)]?.isEmpty == true { streams[ObjectIdentifier(group)] = nil }
        gateway.metrics.streams.add(-1)
        if let link { gateway.listeners.leave(group, link) }
    }
}
