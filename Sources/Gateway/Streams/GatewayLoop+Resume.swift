import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

extension GatewayLoop {
    /// The entry behind which a stream goes on as if its reader had never gone away; nil where that can't be told, so that
    /// it begins with a fresh `put`.
    ///
    /// That needs an id that a reader of this place was given, and rules that have been the same since and let this
    /// caller in whatever the data and the time: else what was written meanwhile may have been for others. Administrators
    /// may read everything at any time, and name any seq.
    func resumePoint(_ call: Call, _ group: ListenerGroup, _ snapshot: Snapshot) -> EventIDs.Seen? {
        guard let text = call.request.headerText("last-event-id") else { return nil }
        let seen = group.ids(snapshot.rules).seen(text)
        if call.auth.isAdmin {
            return seen ?? Int64(text.prefix { $0 != "-" }).map { EventIDs.Seen(seq: $0, mark: nil) }
        }
        guard let seen else { return nil }
        let isSteady = snapshot.rules.seq <= seen.seq && snapshot.rules.set.isSteadyForReading(call.path)
        return isSteady || seen.seq == snapshot.seq ? seen : nil
    }

    /// Continues a stream behind `lastSeen`: from memory if nothing happened since, else from the log. What can't be told
    /// as events (entries pruned, too many, an import, a changed window of a query) is told as a fresh `put`.
    func resumeStream(_ stream: Stream, _ seen: EventIDs.Seen, _ snapshot: Snapshot) {
        let group = stream.group
        let lastSeen = seen.seq
        if lastSeen == snapshot.seq {
            guard seen.isOf(snapshot.batch) else { return sendFirstValue(stream, snapshot) }
            gateway.metrics.streamsResumed.add()
            return begin(stream, with: [], at: lastSeen)
        }
        guard let link else { return }
        let id = stream.exchange.id
        if lastSeen > snapshot.seq { return awaitSeen(stream, seen) }
        guard snapshot.seq - lastSeen <= gateway.settings.maxResumeEntries else {
            return sendFirstValue(stream, snapshot)
        }
        let reading = ResumeReading(
            group.key, group.ids(snapshot.rules), maxBytes: gateway.settings.streamBufferBytes * 8)
        let isMeant = { @Sendable (batch: [UInt8]) in seen.isOf(batch) }
        gateway.engine.readLog(
            group.namespace.id, after: lastSeen, through: snapshot.seq, isMeant: isMeant, each: reading.take
        ) { result in
            let missed = reading.finish(result, expecting: snapshot.seq)
            link.post { loop in
                guard let stream = loop.streams[ObjectIdentifier(group)]?[id] else { return }
                if let missed {
                    loop.gateway.metrics.streamsResumed.add()
                    loop.begin(stream, with: missed, at: snapshot.seq)
                } else {
                    loop.sendFirstValue(stream, snapshot)
                }
            }
        }
    }

    /// The client has seen more than this gateway: it waits until that is applied here. If it never is (another database
    /// under the same name), the client is told the value anew.
    private func awaitSeen(_ stream: Stream, _ seen: EventIDs.Seen) {
        guard let link else { return }
        let group = stream.group
        let id = stream.exchange.id
        let timer = loop.schedule(afterMilliseconds: gateway.settings.minSeqWaitMilliseconds) { [weak self] in
            guard let self, let stream = self.streams[ObjectIdentifier(group)]?[id] else { return }
            guard case .opening = stream.state else { return }
            self.sendFirstValue(stream, group.namespace.snapshot)
        }
        _ = timer
        group.namespace.whenApplied(seen.seq, within: Int64(gateway.settings.minSeqWaitMilliseconds)) {
            link.post { loop in
                guard let stream = loop.streams[ObjectIdentifier(group)]?[id] else { return }
                guard case .opening = stream.state else { return }
                // What came behind it has waited in the stream; whether it is the entry that was seen, is asked now.
                loop.resumeStream(stream, seen, group.namespace.snapshot)
            }
        }
    }
}

/// Gathers what a stream missed from entries of the log, page by page. Used by one thread at a time.
final class ResumeReading: Sendable {
    private struct State {
        var events: [SharedBytes] = []
        var byteCount = 0
        var last: Int64?
        var needsFreshValue = false
    }
    private let state: MutexBox<State>
    private let key: ListenerKey
    private let ids: EventIDs
    private let form: JSONForm
    private let maxBytes: Int

    init(_ key: ListenerKey, _ ids: EventIDs, maxBytes: Int) {
        self.key = key
        self.ids = ids
        form = if case .events(let form) = key.encoding { form } else { .export }
        self.maxBytes = maxBytes
        state = MutexBox(State())
    }

    /// Takes the next entries. False when no more are wanted.
    @Sendable func take(_ entries: [Entry], _ batches: [[UInt8]], after seq: Int64) -> Bool {
        state.withLock { state in
            guard entries.first?.seq == seq + 1 else {
                state.needsFreshValue = true
                return false
            }
            for (entry, batch) in zip(entries, batches) {
                state.last = entry.seq
                if entry.isBulk, key.path.contains(entry.path) || entry.path.contains(key.path) {
                    state.needsFreshValue = true
                }
                guard let event = ChangeEvent(entry, at: key.path, before: nil) else { continue }
                // A window of the past is not known.
                if key.query != nil { state.needsFreshValue = true }
                if state.needsFreshValue { return false }
                let bytes = StreamEvent.encode(event, id: ids.id(entry.seq, batch), form: form)
                state.byteCount += bytes.count
                state.events.append(SharedBytes(bytes))
            }
            if state.byteCount > maxBytes { state.needsFreshValue = true }
            return !state.needsFreshValue
        }
    }

    /// The missed events, or nil if the client must be told the value anew.
    func finish(_ result: Result<Void, EngineError>, expecting last: Int64) -> [SharedBytes]? {
        state.withLock { state in
            guard case .success = result, !state.needsFreshValue, state.last == last else { return nil }
            return state.events
        }
    }
}
