import Engine
import HTTPServer
import Rules
import Runtime
import Wire

/// The services that a stream needs from its creator.
protocol StreamHost: AnyObject {
    /// Sends a stream a `put` of a snapshot's value with `Stream.begin`, now or later.
    func sendValue(_ stream: Stream, _ snapshot: Snapshot)
    /// Counts slow streams.
    var conflations: Counter { get }
}

/// One client's event stream. Belongs to its loop's thread.
///
/// The stream sends the value at some seq and then every later event, in order. Unsent events wait in the connection's
/// queue. When the queue exceeds the limit, the stream is conflated: it drops the queue, waits until the client has
/// read the bytes in flight, and then sends one `put` with the current value.
///
/// The states of a stream:
///
///                                  begin
///      subscribed --> opening -----------------------> live
///                     ^  |  ^                          |  |
///                     |  |  `--------- restart --------'  | more than bufferBytes queued
///                     |  |                                v
///                     |  `-- begin, value too old --> conflated
///                     |                                   |
///                     `----------- drained ---------------'
///
///      any state -- end, or the connection closed --> closed
///
/// - `opening`: a worker encodes the value, or the log is read for a client that resumes. Events wait in the state. If
///   they exceed `bufferBytes`, the stream drops them and sets `oldestFirstValue`: a value of an earlier entry does not
///   make the stream live.
/// - `live`: the stream sends each event. `seq` is the last entry that was sent; events up to `seq` are skipped.
/// - `conflated`: the stream skips events. When the client has read all queued bytes, `drained` requests the newest
///   value.
/// - `closed`: the stream sends nothing any more.
///
/// `StreamOpener` decides how a stream begins, `ListenerTable` calls `deliver`, `restart` and `shutOut`, and
/// `StreamHub` ends streams whose credentials are no longer valid.
final class Stream {
    enum State {
        /// The first value is being read or encoded; events wait.
        case opening([EncodedEvents.Event])
        case live
        /// The client is slow; events are skipped until it has caught up.
        case conflated
        case closed
    }

    let exchange: HTTPExchange
    let group: ListenerGroup
    let identity: Identity
    private unowned let host: any StreamHost
    /// The entry up to which the client has received events.
    private(set) var seq: Int64
    private(set) var state = State.opening([])
    /// The id of the last event that the client reports to have seen.
    let resumeID: String?
    /// The entry that the client has seen and this gateway has not reached yet. The stream begins at that entry.
    var awaitedSeq: Int64?
    var admission = Admission()
    /// Bytes of the events that wait while opening.
    private var waitingBytes = 0
    /// The lowest seq of a first value that makes the stream live. After an earlier value, dropped events are missing.
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

    /// Sends the first value or the missed events, and then the waiting events. If newer events were dropped meanwhile,
    /// the stream sends the value again once the client has read this one. So the client makes progress however fast
    /// values change.
    func begin(with bytes: [SharedBytes], at seq: Int64) {
        guard case .opening(let waiting) = state else { return }
        for piece in bytes { exchange.send(piece) }
        self.seq = seq
        waitingBytes = 0
        guard seq >= oldestFirstValue else {
            // Events after this value were dropped. The value is correct at its seq, and the newest value has to
            // follow.
            state = .conflated
            // If all bytes were sent at once, no drain event follows.
            if exchange.queuedOutputBytes == 0 { drained() }
            return
        }
        state = .live
        for event in waiting where event.seq > self.seq {
            exchange.send(event.bytes)
            self.seq = event.seq
        }
    }

    /// Drops the waiting events. A worker may still deliver a value older than `seq`; another value has to follow it.
    private func reopen(at seq: Int64) {
        state = .opening([])
        waitingBytes = 0
        oldestFirstValue = seq
    }

    private func resendValue(_ snapshot: Snapshot) {
        reopen(at: snapshot.seq)
        host.sendValue(self, snapshot)
    }

    // MARK: Slow clients

    private func conflate() {
        host.conflations.add()
        // A value is being encoded; `begin` sees that it is not the last one.
        if isOpening { return reopen(at: group.namespace.snapshot.seq) }
        exchange.dropQueuedOutput()
        state = .conflated
        // The partly sent output goes out first, and `drained` follows. Without such output it has to be called here.
        if exchange.queuedOutputBytes == 0 { drained() }
    }

    /// The client has read all bytes that were in flight.
    func drained() {
        guard case .conflated = state else { return }
        resendValue(group.namespace.snapshot)
    }

    // MARK: Closing

    /// Sends a last event and closes. Unsent events are dropped.
    func end(with event: [UInt8]) {
        exchange.dropQueuedOutput()
        exchange.send(SharedBytes(event))
        state = .closed
        exchange.close()
    }

    /// The connection was closed.
    func closed() { state = .closed }
}

extension Stream: Listener {
    static func delivery(of events: EncodedEvents) -> EncodedEvents { events }

    var id: UInt64 { exchange.id }
    var reader: AuthContext { identity.context }
    /// A stream has a single login.
    var loginNumber: Int { 0 }

    func deliver(_ delivery: inout EncodedEvents, bufferBytes: Int) {
        switch state {
        case .closed, .conflated: return
        case .opening(var waiting):
            waiting.append(contentsOf: delivery.events)
            waitingBytes += delivery.joined.count
            state = .opening(waiting)
            // Too many events before the first value was sent: the value is replaced by a newer one.
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
        case .live: resendValue(snapshot)
        // A value that is being encoded may belong to a lost history, with a seq beyond the snapshot's.
        case .opening: reopen(at: .max)
        // A conflated stream restarts anyway when the client has caught up.
        case .conflated, .closed: break
        }
    }

    func shutOut() { end(with: StreamEvent.cancel) }

    /// The client reconnects and gets the namespace that has the name then.
    func namespaceEnded() { exchange.close() }
}
