import CEvent
import Glibc
import Runtime
import TLS

/// The connections of one loop, with their listening sockets, deadlines, buffers and handler. Belongs to the loop's
/// thread.
final class LoopService {
    let loop: EventLoop
    let settings: HTTPServerSettings
    let counters: LoopCounters
    let budget: SharedBudget
    let handler: any HTTPLoopHandler
    let parsers: ParserPool
    /// The buffer for all input of the loop.
    let input: UnsafeMutableRawBufferPointer
    let scratch = OutputScratch()
    var wheel: DeadlineWheel

    private(set) var isDraining = false
    private var connections = ConnectionTable()
    private var acceptors: [Acceptor] = []
    private var waiting: [Connection] = []
    private var laterEvent: OpaquePointer?
    private var reading: [UInt64] = []
    private var readAgainEvent: OpaquePointer?
    private var exchangeCount: UInt64 = 0
    private var date = HTTPDate()
    private var stopsWhenEmpty = false
    private var isStopped = false

    /// The number of connections over the limit that are receiving a refusal. Beyond `refusedMax`, the server closes
    /// such connections without a reply.
    private var refusedCount = 0

    private static let refusedMax = 256
    private static let inputBytes = 64 * 1024

    init(
        loop: EventLoop, settings: HTTPServerSettings, counters: LoopCounters, budget: SharedBudget,
        handler: any HTTPLoopHandler
    ) {
        self.loop = loop
        self.settings = settings
        self.counters = counters
        self.budget = budget
        self.handler = handler
        parsers = ParserPool(limits: RequestParser.Limits(settings))
        input = .allocate(byteCount: Self.inputBytes, alignment: 16)
        wheel = DeadlineWheel(
            tickMilliseconds: settings.deadlineTickMilliseconds, nowMilliseconds: Clock.coarseMilliseconds)
    }

    deinit {
        input.deallocate()
        if let laterEvent { event_free(laterEvent) }
        if let readAgainEvent { event_free(readAgainEvent) }
    }

    var nowMilliseconds: Milliseconds { Clock.coarseMilliseconds }

    // MARK: Lifecycle

    func start(_ sockets: [ListeningSocket]) {
        laterEvent = event_new(
            loop.base, -1, 0,
            { _, _, context in
                guard let context else { return }
                Unmanaged<LoopService>.fromOpaque(context).takeUnretainedValue().runWaiting()
            }, Unmanaged.passUnretained(self).toOpaque())
        readAgainEvent = event_new(
            loop.base, -1, 0,
            { _, _, context in
                guard let context else { return }
                Unmanaged<LoopService>.fromOpaque(context).takeUnretainedValue().runReading()
            }, Unmanaged.passUnretained(self).toOpaque())
        acceptors = sockets.map { Acceptor($0, service: self) }
        for acceptor in acceptors { acceptor.start() }
        loop.schedule(everyMilliseconds: settings.deadlineTickMilliseconds) { [unowned self] in turnWheel() }
    }

    func beginDrain() {
        guard !isDraining else { return }
        // Connections in the kernel's queue count as established, so they are accepted first.
        for acceptor in acceptors {
            acceptor.accept()
            acceptor.stop()
        }
        acceptors = []
        isDraining = true
        for connection in connections.all where connection.phase == .idle && connection.output.isEmpty {
            // A request may have arrived that the loop has not read yet.
            connection.readable()
            if connection.phase == .idle, connection.output.isEmpty { connection.die() }
        }
        handler.loopWillDrain()
    }

    /// Drains, and ends the loop when the last connection has closed or after `deadlineMilliseconds`.
    func stop(deadlineMilliseconds: Milliseconds) {
        beginDrain()
        guard !isStopped else { return }
        stopsWhenEmpty = true
        if connections.count == 0 || deadlineMilliseconds <= 0 { return end() }
        loop.schedule(afterMilliseconds: deadlineMilliseconds) { [unowned self] in end() }
    }

    private func end() {
        guard !isStopped else { return }
        isStopped = true
        handler.loopWillStop()
        for connection in connections.all { connection.die() }
        while !waiting.isEmpty { runWaiting() }
        loop.stopRunning()
    }

    // MARK: Connections

    func add(_ descriptor: Int32, _ peer: PeerAddress, isSecure: Bool) {
        counters.accepted.bump()
        var permits: Permits?
        var refusal: Refusal?
        switch budget.takeConnection(peer.ip) {
        case .success(let taken): permits = taken
        case .failure(let reason):
            refusal = reason
            counters.rejected.bump()
            if case .tooManyFromAddress = reason { counters.overAddressLimit.bump() }
            guard refusedCount < Self.refusedMax else { return SocketStream(descriptor: descriptor).close() }
            refusedCount += 1
        }
        let tls = isSecure ? settings.tls?.context.makeSession(descriptor: descriptor) : nil
        counters.active.bump()
        let connection = connections.insert { id in
            Connection(
                service: self, id: id, transport: SocketStream(descriptor: descriptor, tls: tls), peer: peer,
                permits: permits, refusal: refusal)
        }
        connection.setReadMode(.normal)
        if isSecure {
            // Without TLS the connection must not be served in plain text.
            if tls == nil { return connection.die() }
            connection.arm(afterMilliseconds: settings.tlsHandshakeTimeoutMilliseconds)
        } else {
            connection.begin()
        }
    }

    func remove(_ connection: Connection) {
        connections.remove(connection.id)
        counters.active.bump(-1)
        if let permits = connection.permits { budget.releaseConnection(permits) } else { refusedCount -= 1 }
        if stopsWhenEmpty, connections.count == 0 { end() }
    }

    func exchange(for reference: ExchangeReference) -> HTTPExchange? {
        guard let connection = connections[reference.connection], !connection.isDead,
            let exchange = connection.exchange, exchange.id == reference.exchange
        else { return nil }
        return exchange
    }

    func nextExchange() -> UInt64 {
        exchangeCount += 1
        return UInt64(loop.index) << 48 | exchangeCount
    }

    func appendDate() {
        date.update(to: time_t(Clock.coarseUnixSeconds))
        scratch.append(date.bytes)
    }

    // MARK: Rounds

    func runLater(_ connection: Connection) {
        waiting.append(connection)
        if waiting.count == 1, let laterEvent { event_active(laterEvent, Int32(EV_TIMEOUT), 0) }
    }

    private func runWaiting() {
        let round = waiting
        waiting = []
        loop.stallMeters.measure("connections") { for connection in round { connection.runLater() } }
    }

    /// Makes the connection read again in the loop's next iteration, because its remaining input is in its TLS session
    /// and not in the socket. Waiting for the next iteration keeps a fast sender from delaying other connections.
    func readAgain(_ connection: Connection) {
        reading.append(connection.id)
        var now = timeval(tv_sec: 0, tv_usec: 0)
        if reading.count == 1, let readAgainEvent { event_add(readAgainEvent, &now) }
    }

    private func runReading() {
        let round = reading
        reading = []
        for id in round {
            guard let connection = connections[id], !connection.isDead, connection.readMode == .normal,
                connection.transport.holdsInput
            else { continue }
            connection.readable()
        }
    }

    private func turnWheel() {
        let now = nowMilliseconds
        for bucket in wheel.take(nowMilliseconds: now) {
            for entry in bucket {
                connections[entry.connection]?.wheelTurned(tick: entry.tick, nowMilliseconds: now)
            }
        }
    }
}
