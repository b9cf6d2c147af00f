import CEvent
import Glibc
import Runtime
import TLS

/// One peer's connection: its socket, its phase and its unsent output. Belongs to its loop's thread.
///
/// An idle connection owns no buffer: input goes through the loop's scratch buffer and a borrowed parser, output goes
/// straight to the socket, and queues exist only while they contain bytes.
///
/// The phases of a connection:
///
///     accepted --> idle <-------------------------------.
///                    | first bytes of a request         | response complete, kept alive
///                    v                                  |
///                receiving -- request complete --> answering -- beginStream --> streaming
///                    | refused, or too slow             | response is the last     | end of the stream
///                    v                                  v                          v
///                flushing <-----------------------------+--------------------------'
///                    | all output sent
///                    v
///                lingering -- the peer closes, or the deadline --> dead
///
/// Every phase can lead to `dead` by `die()`: the socket fails, the peer disconnects, or a deadline passes. A refused
/// connection goes from `idle` to `flushing`. `flushing` leads to `dead` without lingering if the peer has ended its
/// input, or has itself requested the connection's end and sent nothing after that request.
///
/// A connection has one deadline at a time: for the TLS handshake, for the next request, for a request's head, for its
/// body, for queued output that the peer does not read, or for lingering. A handler's answer has no deadline. The
/// connection delivers one request at a time; input after that request waits in `pending`, at most one read of it.
///
/// Connection+Input.swift receives and parses; Connection+Output.swift writes responses and sends. TLS handshakes,
/// deadlines and the table of a loop's connections are below.
final class Connection {
    enum Phase: Equatable {
        /// Between requests, or before the first one.
        case idle
        /// Part of a request has arrived.
        case receiving
        /// A handler has the request.
        case answering
        /// A response without end is being sent, or the protocol was changed.
        case streaming
        /// No further request is accepted; queued output is being sent.
        case flushing(lingers: Bool)
        /// All output was sent; input is discarded until the peer closes.
        case lingering
        /// Closed; destroyed in the loop's next round.
        case dead
    }

    enum ReadMode {
        case off
        /// Level-triggered: called while there is input.
        case normal
        /// Edge-triggered, after the peer's end of input: called only if the connection breaks.
        case watch
    }

    let service: LoopService
    let id: UInt64
    var transport: SocketStream
    let peer: PeerAddress
    /// The connection's permits; nil for a connection that only receives a refusal.
    let permits: Permits?
    /// The refusal, which is the only reply of this connection.
    let refusal: Refusal?

    var phase = Phase.idle
    var parser: RequestParser?
    var exchange: HTTPExchange?
    /// Input after the current request. Bounded by one read; while it is not empty the socket is not read.
    var pending: [UInt8] = []
    var output = OutputQueue()
    /// The account that queued output is charged to.
    var account: OutputBudget.Account
    /// Body bytes taken from the server's budget for the current request.
    var bodyReserved = 0
    /// A large body's memory share, which replaces `bodyReserved`.
    var bodyShare: MemoryShare?
    /// Whether the handler lets the sender of the current request send a large body; nil until it was asked.
    var isLargeBodyAllowed: Bool?

    /// The time of the next timeout by the loop's clock. The phase determines the action.
    var deadlineMilliseconds = Milliseconds.max
    /// The wheel's tick at which this connection is checked; `Int.max` if it is not in the wheel.
    var wheelTick = Int.max
    /// The time at which the present head or body began; nil between requests.
    var stageSinceMilliseconds: Milliseconds?
    var isReceivingBody = false

    /// The start of this connection's bytes in the loop's output scratch while it processes its input.
    var corkStart = 0
    var isDriving = false
    var hasMoreInput = false
    var keepsAlive = false
    /// Whether the peer has ended its input; it may still read.
    var peerFinished = false
    var isWaitingForLater = false

    private var readEvent: OpaquePointer?
    private(set) var readMode = ReadMode.off
    private var writeEvent: OpaquePointer?
    private(set) var isWriteArmed = false

    init(
        service: LoopService, id: UInt64, transport: SocketStream, peer: PeerAddress, permits: Permits?,
        refusal: Refusal?
    ) {
        self.service = service
        self.id = id
        self.transport = transport
        self.peer = peer
        self.permits = permits
        self.refusal = refusal
        account = OutputBudget.Account(address: peer.ip.limitKey)
    }

    deinit {
        freeEvents()
    }

    var isDead: Bool { phase == .dead }

    // MARK: Events

    func setReadMode(_ mode: ReadMode) {
        guard mode != readMode, !isDead || mode == .off else { return }
        if let readEvent, readMode != .off { event_del(readEvent) }
        readMode = mode
        guard mode != .off else { return }
        let flags = Int16(EV_READ | EV_PERSIST | (mode == .watch ? EV_ET : 0))
        let callback: event_callback_fn = { _, _, context in
            guard let context else { return }
            let connection = Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue()
            connection.service.loop.stallMeters.measure("input") { connection.readable() }
        }
        let context = Unmanaged.passUnretained(self).toOpaque()
        if let readEvent {
            event_assign(readEvent, service.loop.base, transport.descriptor, flags, callback, context)
        } else {
            readEvent = event_new(service.loop.base, transport.descriptor, flags, callback, context)
        }
        if readEvent == nil || event_add(readEvent, nil) != 0 { return die() }
        if transport.holdsInput { service.readAgain(self) }
    }

    func armWrite() {
        guard !isWriteArmed, !isDead else { return }
        // libevent rejects edge- and level-triggered events on one descriptor.
        if readMode == .watch { setReadMode(.off) }
        if writeEvent == nil {
            writeEvent = event_new(
                service.loop.base, transport.descriptor, Int16(EV_WRITE | EV_PERSIST),
                { _, _, context in
                    guard let context else { return }
                    let connection = Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue()
                    connection.service.loop.stallMeters.measure("output") { connection.writable() }
                }, Unmanaged.passUnretained(self).toOpaque())
        }
        isWriteArmed = true
        if writeEvent == nil || event_add(writeEvent, nil) != 0 { die() }
    }

    func disarmWrite() {
        guard isWriteArmed else { return }
        isWriteArmed = false
        if let writeEvent { event_del(writeEvent) }
    }

    private func freeEvents() {
        if let readEvent { event_free(readEvent) }
        if let writeEvent { event_free(writeEvent) }
        readEvent = nil
        writeEvent = nil
    }

    // MARK: Closing

    /// Ends the connection. The application's handlers run, and the socket is closed, in the loop's next round, so this
    /// method may be called at any point.
    func die() {
        guard !isDead else { return }
        phase = .dead
        setReadMode(.off)
        disarmWrite()
        later()
    }

    /// Calls `runLater` in the loop's next round.
    func later() {
        guard !isWaitingForLater else { return }
        isWaitingForLater = true
        service.runLater(self)
    }

    func runLater() {
        isWaitingForLater = false
        if isDead { destroy() } else { resume() }
    }

    private func destroy() {
        freeEvents()
        transport.close()
        output.removeAll()
        releaseBody()
        if let parser { service.parsers.giveBack(parser) }
        parser = nil
        let ended = exchange
        exchange = nil
        ended?.connectionClosed()
        service.remove(self)
    }

    func releaseBody() {
        isLargeBodyAllowed = nil
        bodyShare = nil
        guard bodyReserved > 0 else { return }
        service.budget.releaseBody(bodyReserved)
        bodyReserved = 0
    }
}

/// The start of a connection over TLS.
extension Connection {
    /// Continues the handshake, and then processes the input that followed it.
    func shakeHands() {
        switch transport.shakeHands() {
        case .needsInput: disarmWrite()
        case .needsOutput: armWrite()
        case .done:
            disarmWrite()
            service.counters.handshakes.bump()
            if transport.isResumed { service.counters.resumedHandshakes.bump() }
            begin()
            if transport.holdsInput, !isDead { readable() }
        case .plainHTTP:
            handshakeFailed()
            reply(400, "This port speaks HTTPS. Use https:// in the address.")
        case .failed:
            // The TLS library has sent the reason to the peer.
            handshakeFailed()
            endAfterFlush(lingers: true)
        }
    }

    /// Waits for the first request, or refuses the connection.
    func begin() {
        if let refusal {
            reply(refusal.status, refusal.text, retryAfterSeconds: 1)
        } else {
            arm(afterMilliseconds: service.settings.idleTimeoutMilliseconds)
        }
    }

    private func handshakeFailed() {
        disarmWrite()
        service.counters.failedHandshakes.bump()
        transport.dropTLS()
    }
}

/// The timeouts of a connection.
extension Connection {
    /// Sets a deadline after `delay`. Moving it to a later time costs one store.
    @inline(__always)
    func arm(afterMilliseconds delay: Milliseconds) {
        deadlineMilliseconds = service.nowMilliseconds + delay
        if wheelTick == .max || service.wheel.tick(of: deadlineMilliseconds) < wheelTick { file() }
    }

    private func file() {
        wheelTick = service.wheel.file(id, deadlineMilliseconds: deadlineMilliseconds)
    }

    /// Handles the wheel's tick for this connection.
    func wheelTurned(tick: Int, nowMilliseconds: Milliseconds) {
        // The deadline was moved to an earlier time, which left a stale entry.
        guard tick == wheelTick, !isDead else { return }
        wheelTick = .max
        if deadlineMilliseconds == .max { return }
        if deadlineMilliseconds > nowMilliseconds { return file() }
        expired(nowMilliseconds)
    }

    private func expired(_ nowMilliseconds: Milliseconds) {
        if phase == .receiving, output.isEmpty, let parser, let since = stageSinceMilliseconds {
            if parser.isHeadComplete {
                let settings = service.settings
                let earned = parser.body.count * 1000 / settings.minBodyBytesPerSecond
                deadlineMilliseconds = since + settings.bodyTimeoutMilliseconds + Milliseconds(earned)
                if deadlineMilliseconds > nowMilliseconds { return file() }
            }
            service.counters.timeouts.bump()
            deadlineMilliseconds = .max
            return reply(408, "The request did not arrive in time.")
        }
        // The connection is idle, has unread output, or ends lingering: a reply would not reach the peer.
        let isIdle = phase == .idle && output.isEmpty && !transport.isHandshaking
        if phase != .lingering, !isIdle { service.counters.timeouts.bump() }
        die()
    }
}

/// The connections of one loop by id. An id combines an index and the generation of its slot, so that the id of a
/// removed connection finds nothing. Every operation is O(1).
struct ConnectionTable {
    private var slots: [Connection?] = []
    private var generations: [UInt32] = []
    private var free: [Int] = []

    /// The number of connections in the table.
    private(set) var count = 0

    /// Inserts the connection that `make` creates for its id.
    mutating func insert(_ make: (UInt64) -> Connection) -> Connection {
        let index: Int
        if let reused = free.popLast() {
            index = reused
        } else {
            index = slots.count
            slots.append(nil)
            generations.append(0)
        }
        let connection = make(UInt64(generations[index]) << 32 | UInt64(index))
        slots[index] = connection
        count += 1
        return connection
    }

    mutating func remove(_ id: UInt64) {
        let index = Int(id & 0xFFFF_FFFF)
        guard self[id] != nil else { return }
        slots[index] = nil
        generations[index] &+= 1
        free.append(index)
        count -= 1
    }

    subscript(id: UInt64) -> Connection? {
        let index = Int(id & 0xFFFF_FFFF)
        guard index < slots.count, generations[index] == UInt32(truncatingIfNeeded: id >> 32) else { return nil }
        return slots[index]
    }

    /// All connections, in no particular order. O(slots).
    var all: [Connection] { slots.compactMap { $0 } }
}
