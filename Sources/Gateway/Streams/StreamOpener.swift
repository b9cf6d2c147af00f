import Engine
import HTTPServer
import Placement
import Rules
import Runtime
import Tree
import Wire

/// Begins streams: with the value, after the last event that the client has seen, or once this gateway has reached that
/// event. One for each loop.
final class StreamOpener: StreamHost {
    private let services: LoopServices
    private let databases: Databases
    private let streams: ListenerTable<Stream>
    private let link: LoopLink<StreamOpener>

    init(_ services: LoopServices, _ databases: Databases, _ streams: ListenerTable<Stream>) {
        self.services = services
        self.databases = databases
        self.streams = streams
        link = LoopLink(services.loop)
        link.lead(to: self)
    }

    var conflations: Counter { services.metrics.conflations }

    /// Begins a stream: at once, or once this gateway has reached the last entry that its client has seen.
    func begin(_ stream: Stream, _ snapshot: Snapshot) {
        let start = StreamStart(
            stream.resumeID, readsEverything: stream.identity.context.readsEverything, stream.group, snapshot)
        switch start {
        case .fresh: startFresh(stream, snapshot)
        case .after(let seen): resume(stream, seen, snapshot)
        case .waiting(let seq): awaitSeen(stream, seq)
        }
    }

    // MARK: The value

    /// Sends a `put` of the whole value. A worker encodes large values.
    func sendValue(_ stream: Stream, _ snapshot: Snapshot) {
        let group = stream.group
        guard group.value(in: snapshot).rowCount > services.settings.heavyRows else {
            return stream.begin(with: [group.initialEvent(snapshot)], at: snapshot.seq)
        }
        let id = stream.id
        let isQueued = services.workers.submit { [link] in
            let bytes = group.initialEvent(snapshot)
            link.post { opener in
                opener.streams.find(id, in: ObjectIdentifier(group))?.begin(with: [bytes], at: snapshot.seq)
            }
        }
        // The client reconnects by itself.
        if !isQueued { stream.exchange.close() }
    }

    // MARK: Resuming

    /// Begins a stream with the value, and counts it if its client asked to resume.
    private func startFresh(_ stream: Stream, _ snapshot: Snapshot) {
        if stream.resumeID != nil { services.metrics.resumesFresh.add() }
        sendValue(stream, snapshot)
    }

    /// Resumes a stream after the last event that its client has seen: from memory if no entry followed, else from the
    /// log. Sends a fresh `put` if the missed changes can't be sent as events: entries were pruned, there are too many,
    /// or they include an import or changes of a query's result.
    private func resume(_ stream: Stream, _ seen: EventIDs.Seen, _ snapshot: Snapshot) {
        if seen.seq == snapshot.seq {
            guard seen.isOf(snapshot.batch) else { return startFresh(stream, snapshot) }
            services.metrics.streamsResumed.add()
            return stream.begin(with: [], at: seen.seq)
        }
        guard snapshot.seq - seen.seq <= services.settings.maxResumeEntries else {
            return startFresh(stream, snapshot)
        }
        let group = stream.group
        let id = stream.id
        let reading = ResumeReading(
            group.key, group.ids(snapshot.rules), maxBytes: services.settings.streamBufferBytes * 8)
        let isMeant = { @Sendable (batch: [UInt8]) in seen.isOf(batch) }
        databases.engine(of: group.namespace).readLog(
            group.namespace.id, after: seen.seq, through: snapshot.seq,
            patience: services.settings.minSeqWaitMilliseconds, isMeant: isMeant, each: reading.take
        ) { [link] result in
            let missed = reading.finish(result, expecting: snapshot.seq)
            link.post { opener in
                guard let stream = opener.streams.find(id, in: ObjectIdentifier(group)) else { return }
                guard let missed else { return opener.startFresh(stream, snapshot) }
                opener.services.metrics.streamsResumed.add()
                stream.begin(with: missed, at: snapshot.seq)
            }
        }
    }

    /// Waits until this gateway has applied the entry that the client has seen. If that does not happen in time
    /// (another database has the same name, or no database answers), the client gets the present value.
    private func awaitSeen(_ stream: Stream, _ lastSeen: Int64) {
        stream.awaitedSeq = lastSeen
        let group = ObjectIdentifier(stream.group)
        let id = stream.id
        let milliseconds = services.settings.minSeqWaitMilliseconds
        _ = services.loop.schedule(afterMilliseconds: milliseconds) { [weak self] in self?.resume(group, id) }
        stream.group.namespace.whenApplied(lastSeen, within: Int64(milliseconds)) { [link] in
            link.post { $0.resume(group, id) }
        }
    }

    /// Begins a stream after its wait. Checks the reader again, because rules and data may have changed.
    private func resume(_ group: ObjectIdentifier, _ id: UInt64) {
        guard let stream = streams.find(id, in: group), let awaited = stream.awaitedSeq else { return }
        stream.awaitedSeq = nil
        guard stream.isOpening else { return }
        var check = ReaderCheck(stream.group)
        guard streams.mayContinue(stream, &check) else { return }
        let snapshot = stream.group.namespace.snapshot
        guard snapshot.seq < awaited else { return begin(stream, snapshot) }
        // Programs notice the repetition by the id, which is smaller than the one that they named.
        stream.exchange.send(SharedBytes(Array(Self.repeatsNote.utf8)))
        startFresh(stream, snapshot)
    }

    private static let repeatsNote =
        ": this gateway has not reached the named event: the following events may repeat\n"
}

/// A client's request to open an event stream.
struct StreamRequest {
    let path: Path
    let query: Query?
    let form: JSONForm
    let identity: Identity
    /// Whether the stream's events have ids.
    let hasIDs: Bool
    /// The id of the last event that the client reports to have seen.
    let lastEventID: String?
}
