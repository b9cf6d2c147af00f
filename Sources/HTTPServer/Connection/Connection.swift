import CEvent
import Glibc
import Runtime
import TLS

/// One peer's connection: its socket, where it stands, what it still has to send. Lives on its loop's thread.
///
/// Idle, it owns no buffer: input goes through the loop's scratch buffer and a borrowed parser, output goes straight to
/// the socket, and queues exist only while something waits in them.
final class Connection {
    enum Phase: Equatable {
        /// Between requests (or before the first).
        case idle
        /// Part of a request has come.
        case receiving
        /// A handler has the request.
        case answering
        /// A response without end is being sent, or the protocol was changed.
        case streaming
        /// No further request; what is queued is being sent.
        case flushing(lingers: Bool)
        /// All sent and said; input is thrown away until the peer closes.
        case lingering
        /// Gone; destroyed in the loop's next round.
        case dead
    }

    enum ReadMode {
        case off
        /// Level-triggered: called while there is input.
        case normal
        /// Edge-triggered, behind the peer's end of input: called only if the connection breaks.
        case watch
    }

    let service: LoopService
    let id: UInt64
    var transport: SocketStream
    let peer: PeerAddress
    /// The permits it has taken; nil for one that is only told why it is refused.
    let permits: Permits?
    /// What is said as soon as it can be, and nothing else.
    let refusal: Refusal?

    var phase = Phase.idle
    var parser: RequestParser?
    var exchange: HTTPExchange?
    /// Input behind the current request. Bounded by one read; while it is not empty the socket is not read.
    var pending: [UInt8] = []
    var output = OutputQueue()
    /// On whose account queued output counts.
    var account: OutputBudget.Account
    /// Body bytes taken from the server's budget for the current request.
    var bodyReserved = 0
    /// What a large body has taken of its peer's share instead.
    var bodyShare: MemoryShare?
    /// Whether the handler lets the sender of the current request send a large body; nil until it was asked.
    var isLargeBodyAllowed: Bool?

    /// When to act if nothing happens, by the loop's clock; what is done follows from the phase.
    var deadlineMilliseconds = Milliseconds.max
    /// The wheel's tick at which this connection will be looked at; `Int.max` where it is not filed.
    var wheelTick = Int.max
    /// When the head or the body that is being received began; nil between.
    var stageSinceMilliseconds: Milliseconds?
    var isReceivingBody = false

    /// Where this connection's bytes begin in the loop's output scratch while it works through its input.
    var corkStart = 0
    var isDriving = false
    var hasMoreInput = false
    var keepsAlive = false
    /// The peer has ended its input; it may still read.
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
            connection.service.loop.stretches.measure("input") { connection.readable() }
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
        // libevent refuses edge- and level-triggered events on one descriptor.
        if readMode == .watch { setReadMode(.off) }
        if writeEvent == nil {
            writeEvent = event_new(
                service.loop.base, transport.descriptor, Int16(EV_WRITE | EV_PERSIST),
                { _, _, context in
                    guard let context else { return }
                    let connection = Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue()
                    connection.service.loop.stretches.measure("output") { connection.writable() }
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

    // MARK: The end

    /// Ends the connection. Nothing of the application is called from here: that, and closing the socket, happens in
    /// the loop's next round, so it is safe in the middle of anything.
    func die() {
        guard !isDead else { return }
        phase = .dead
        setReadMode(.off)
        disarmWrite()
        later()
    }

    /// Has `runLater` called in the loop's next round.
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
