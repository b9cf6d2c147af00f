import Engine
import HTTPServer
import Tree

/// One client's event stream. Belongs to its loop's thread.
///
/// It is sent the value as of some seq and then every later event, in order. What the client does not take waits in the
/// connection's queue; once that holds more than the bound, the stream is conflated: the queue is dropped and, when the
/// client has taken what was already on its way, it gets one `put` with the value as it is then.
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
    /// The entry that the client was brought to.
    var seq: Int64
    var state = State.opening([])
    /// The id of the last event that the client has seen, as it says.
    var resumeID: String?
    /// The entry that the client has seen and this gateway has not: the stream begins when it has.
    var awaitedSeq: Int64?
    /// The rules that last let the reader in.
    var judgedBy: RulesVersion?
    /// Bytes of events that wait while opening.
    private var waitingBytes = 0
    /// Behind first values of earlier entries there is a gap: events between were dropped.
    private var oldestFirstValue: Int64 = 0

    init(_ exchange: HTTPExchange, _ group: ListenerGroup, _ identity: Identity, seq: Int64) {
        self.exchange = exchange
        self.group = group
        self.identity = identity
        self.seq = seq
    }

    /// Takes new events. False when the stream has to be conflated.
    func receive(_ encoded: EncodedEvents, bufferBytes: Int) -> Bool {
        switch state {
        case .closed, .conflated: return true
        case .opening(var waiting):
            waiting.append(contentsOf: encoded.events)
            waitingBytes += encoded.joined.count
            state = .opening(waiting)
            // Too much happened before the first value was out: it will be sent as of then.
            return waitingBytes <= bufferBytes
        case .live:
            send(encoded)
            return exchange.queuedOutputBytes <= bufferBytes
        }
    }

    private func send(_ encoded: EncodedEvents) {
        guard let first = encoded.events.first, let last = encoded.events.last, last.seq > seq else { return }
        if first.seq > seq {
            exchange.send(encoded.joined)
        } else {
            for event in encoded.events where event.seq > seq { exchange.send(event.bytes) }
        }
        seq = last.seq
    }

    /// Sends a last event and closes. What had not been sent is not sent any more.
    func end(with event: [UInt8]) {
        exchange.dropQueuedOutput()
        exchange.send(SharedBytes(event))
        state = .closed
        exchange.close()
    }

    /// Drops the events that wait: after a value of before `seq`, which may still be on its way from a worker, there has
    /// to come another one.
    func reopen(at seq: Int64) {
        state = .opening([])
        waitingBytes = 0
        oldestFirstValue = seq
    }

    /// The first value (or what was missed) goes out, then what has waited for it.
    func begin(with bytes: [SharedBytes], at seq: Int64) {
        guard case .opening(let waiting) = state else { return }
        for piece in bytes { exchange.send(piece) }
        self.seq = seq
        waitingBytes = 0
        guard seq >= oldestFirstValue else {
            // What followed it was dropped: true as of its seq, and to be followed by the value as it is then.
            state = .conflated
            // What went out at once drains nothing later.
            if exchange.queuedOutputBytes == 0 { exchange.onDrain?() }
            return
        }
        state = .live
        for event in waiting where event.seq > self.seq {
            exchange.send(event.bytes)
            self.seq = event.seq
        }
    }
}
