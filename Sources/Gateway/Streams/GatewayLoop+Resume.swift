import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// Where a stream begins.
enum StreamStart: Sendable, Equatable {
    /// With a `put` of the value.
    case fresh
    /// Behind an event that its client has seen.
    case behind(EventIDs.Seen)
    /// Not before this gateway has come to the entry that its client has seen: what it sent before that, the client would
    /// see twice.
    case waiting(Int64)
}

extension GatewayLoop {
    /// How a stream goes on as if its reader had never gone away; with a fresh `put` where that can't be told.
    ///
    /// To go on needs an id that a reader of this place was given, and rules that have been the same since and let this
    /// caller in whatever the data and the time: else what was written meanwhile may have been for others. Administrators
    /// may read everything at any time, and name any seq.
    func start(of stream: Stream, _ snapshot: Snapshot) -> StreamStart {
        guard let text = stream.resumeID else { return .fresh }
        let group = stream.group
        let isAdmin = stream.identity.context.isAdmin
        let sealed =
            group.ids(snapshot.rules).seen(text)
            ?? EventIDs.seen(text, givenBehind: snapshot.seq, group.namespace, group.key.path)
        let named = isAdmin ? Int64(text.prefix { $0 != "-" }).map { EventIDs.Seen(seq: $0, mark: nil) } : nil
        guard let seen = sealed ?? named else { return .fresh }
        if seen.seq > snapshot.seq { return .waiting(seen.seq) }
        let isSteady = snapshot.rules.seq <= seen.seq && snapshot.rules.set.isSteadyForReading(group.key.path)
        return isAdmin || isSteady || seen.seq == snapshot.seq ? .behind(seen) : .fresh
    }

    /// Begins a stream: at once, or once this gateway has come as far as its client.
    func begin(_ stream: Stream, _ snapshot: Snapshot) {
        switch start(of: stream, snapshot) {
        case .fresh: sendFirstValue(stream, snapshot)
        case .behind(let seen): resumeStream(stream, seen, snapshot)
        case .waiting(let seq): awaitSeen(stream, seq)
        }
    }

    /// Continues a stream behind `lastSeen`: from memory if nothing happened since, else from the log. What can't be told
    /// as events (entries pruned, too many, an import, a changed window of a query) is told as a fresh `put`.
    private func resumeStream(_ stream: Stream, _ seen: EventIDs.Seen, _ snapshot: Snapshot) {
        let group = stream.group
        let lastSeen = seen.seq
        if lastSeen == snapshot.seq {
            guard seen.isOf(snapshot.batch) else { return sendFirstValue(stream, snapshot) }
            gateway.metrics.streamsResumed.add()
            return begin(stream, with: [], at: lastSeen)
        }
        guard let link else { return }
        let id = stream.exchange.id
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
    /// under the same name, or none that answers), the client is told the value that there is.
    private func awaitSeen(_ stream: Stream, _ lastSeen: Int64) {
        guard let link else { return }
        stream.awaitedSeq = lastSeen
        let group = ObjectIdentifier(stream.group)
        let id = stream.exchange.id
        let milliseconds = gateway.settings.minSeqWaitMilliseconds
        _ = loop.schedule(afterMilliseconds: milliseconds) { [weak self] in self?.goOn(group, id) }
        stream.group.namespace.whenApplied(lastSeen, within: Int64(milliseconds)) {
            link.post { $0.goOn(group, id) }
        }
    }

    /// The wait is over, one way or the other. Rules and data may have changed meanwhile: the reader is judged anew.
    private func goOn(_ group: ObjectIdentifier, _ id: UInt64) {
        guard let stream = streams[group]?[id], let awaited = stream.awaitedSeq else { return }
        stream.awaitedSeq = nil
        guard case .opening = stream.state else { return }
        var check = ReaderCheck(stream.group)
        guard mayGoOn(stream, &check) else { return }
        let snapshot = stream.group.namespace.snapshot
        guard snapshot.seq < awaited else { return begin(stream, snapshot) }
        // Programs can tell by the id, which is smaller than the one that they named.
        stream.exchange.send(SharedBytes(Array(Self.repeatsNote.utf8)))
        sendFirstValue(stream, snapshot)
    }

    private static let repeatsNote =
        ": this gateway has not come to the event that was named: what follows may repeat\n"
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
