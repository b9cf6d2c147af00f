import Engine
import HTTPServer
import Rules
import Runtime
import Wire

/// What a stream needs of whoever opened it.
protocol StreamHost: AnyObject {
    /// Sends a stream a `put` of the value as of a snapshot: with `Stream.begin`, now or later.
    func sendValue(_ stream: Stream, _ snapshot: Snapshot)
    /// Counts slow streams.
    var conflations: Counter { get }
}

/// One client's event stream. Belongs to its loop's thread.
///
/// It is sent the value as of some seq and then every later event, in order. What the client does not take waits in the
/// connection's queue; once that holds more than the bound, the stream is conflated: the queue is dropped and, when the
/// client has taken what was already on its way, it gets one `put` with the value as it is then.
///
/// The states of a stream:
///
///                                 begin
///     subscribed --> opening -----------------------> live
///                    ^  |  ^                          |  |
///                    |  |  `--------- restart --------'  | more than bufferBytes queued
///                    |  |                                v
///                    |  `-- begin, value too old --> conflated
///                    |                                   |
///                    `----------- drained ---------------'
///
///     any state -- end, or the connection is gone --> closed
///
/// - `opening`: a worker encodes the value, or the log is read for a client that resumes. Events wait in the state. If they
///   exceed `bufferBytes`, the stream drops them and sets `oldestFirstValue`: a value of an earlier entry does not make the
///   stream live.
/// - `live`: the stream sends each event. `seq` is the last entry that was sent; events up to `seq` are skipped.
/// - `conflated`: the stream skips events. When the client has taken all queued bytes, `drained` requests the newest value.
/// - `closed`: the stream sends nothing any more.
///
/// `StreamOpener` decides what a stream begins with, `ListenerTable` calls `deliver`, `restart` and `shutOut`, and
/// `StreamHub` ends streams whose credentials are no longer valid.
final class Stream {
    enum State {
        /// The first value is being looked up or encoded; events wait.
        case opening([EncodedEvents.Event])
        case live
        /// The client is behind; events are skipped until it has caught up.
        case conflated
        case closed
    }

    let exchange: HTTPExchange
    let group: ListenerGroup
    let identity: Identity
    private unowned let host: any StreamHost
    /// The entry that the client was brought to.
    private(set) var seq: Int64
    private(set) var state = State.opening([])
    /// The id of the last event that the client has seen, as it says.
    let resumeID: String?
    /// The entry that the client has seen and this gateway has not: the stream begins when it has.
    var awaitedSeq: Int64?
    var admission = Admission()
    /// Bytes of events that wait while opening.
    private var waitingBytes = 0
    /// Behind first values of earlier entries there is a gap: events between were dropped.
    private var oldestFirstValue: Int64 = 0

    init(
        _ exchange: HTTPExchange, _ group: ListenerGroup, _ identity: Identity, seq: Int64, resumeID: String?,
        _ host: any StreamHost
    ) {
        self.exchange = exchange
        self.group = group
        self.identity = identity
        self.seq = seq
        self.resumeID = resumeID
        self.host = host
    }

    var isOpening: Bool { if case .opening = state { true } else { false } }
    var isLive: Bool { if case .live = state { true } else { false } }

    // MARK: The value

    /// The first value (or what was missed) goes out, then what has waited for it. If more has been dropped meanwhile, the
    /// value follows anew as soon as the client has taken this: it makes progress however fast things change.
    func begin(with bytes: [SharedBytes], at seq: Int64) {
        guard case .opening(let waiting) = state else { return }
        for piece in bytes { exchange.send(piece) }
        self.seq = seq
        waitingBytes = 0
        guard seq >= oldestFirstValue else {
            // What followed it was dropped: true as of its seq, and to be followed by the value as it is then.
            state = .conflated
            // What went out at once drains nothing later.
            if exchange.queuedOutputBytes == 0 { drained() }
            return
        }
        state = .live
        for event in waiting where event.seq > self.seq {
            exchange.send(event.bytes)
            self.seq = event.seq
        }
    }

    /// Drops the events that wait: after a value of before `seq`, which may still be on its way from a worker, there has
    /// to come another one.
    private func reopen(at seq: Int64) {
        state = .opening([])
        waitingBytes = 0
        oldestFirstValue = seq
    }

    private func sendValueAnew(_ snapshot: Snapshot) {
        reopen(at: snapshot.seq)
        host.sendValue(self, snapshot)
    }

    // MARK: Slow clients

    private func conflate() {
        host.conflations.add()
        // A value is on its way; `begin` will see that it is not the last.
        if isOpening { return reopen(at: group.namespace.snapshot.seq) }
        exchange.dropQueuedOutput()
        state = .conflated
        // What is partly sent goes out first; `drained` follows, unless nothing is left to wait for.
        if exchange.queuedOutputBytes == 0 { drained() }
    }

    /// The client has taken everything that was on its way.
    func drained() {
        guard case .conflated = state else { return }
        sendValueAnew(group.namespace.snapshot)
    }

    // MARK: The end

    /// Sends a last event and closes. What had not been sent is not sent any more.
    func end(with event: [UInt8]) {
        exchange.dropQueuedOutput()
        exchange.send(SharedBytes(event))
        state = .closed
        exchange.close()
    }

    /// The connection is gone.
    func closed() { state = .closed }
}

extension Stream: Listener {
    static func delivery(of events: EncodedEvents) -> EncodedEvents { events }

    var id: UInt64 { exchange.id }
    var reader: AuthContext { identity.context }
    /// A stream has one login from beginning to end.
    var loginNumber: Int { 0 }

    func deliver(_ delivery: inout EncodedEvents, bufferBytes: Int) {
        switch state {
        case .closed, .conflated: return
        case .opening(var waiting):
            waiting.append(contentsOf: delivery.events)
            waitingBytes += delivery.joined.count
            state = .opening(waiting)
            // Too much happened before the first value was out: it will be sent as of then.
            if waitingBytes > bufferBytes { conflate() }
        case .live:
            send(delivery)
            if exchange.queuedOutputBytes > bufferBytes { conflate() }
        }
    }

    private func send(_ encoded: EncodedEvents) {
        guard let first = encoded.events.first, encoded.lastSeq > seq else { return }
        if first.seq > seq {
            exchange.send(encoded.joined)
        } else {
            for event in encoded.events where event.seq > seq { exchange.send(event.bytes) }
        }
        seq = encoded.lastSeq
    }

    func restart(from snapshot: Snapshot) {
        switch state {
        case .live: sendValueAnew(snapshot)
        // A value that is on its way may be of a history that is no more, with a seq beyond this one's.
        case .opening: reopen(at: .max)
        // Begins again anyway, as soon as the client has caught up.
        case .conflated, .closed: break
        }
    }

    func shutOut() { end(with: StreamEvent.cancel) }

    /// Its client comes back to what has the namespace's name by then.
    func namespaceEnded() { exchange.close() }
}
