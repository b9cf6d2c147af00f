import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// One realtime client: takes its requests in order, and answers. Belongs to its loop's thread.
///
/// Order is the point: what a write changes is pushed to the writer's own listens before the write is answered, and data
/// of a listen before the listen is (reference: rtdb-protocol 3.6). Committers tell a loop of changes before they tell it
/// of outcomes, and the loop does both in the order told.
final class RealtimeSession {
    let id: String
    unowned let loop: GatewayLoop
    let namespace: LiveNamespace
    var transport: any RealtimeTransport {
        didSet { for listen in listens.values { listen.transport = transport } }
    }
    /// A socket that is to take over from polling, and how far that is.
    var upgrade: (transport: RelayedWebSocketTransport, steps: TransportUpgrade)?
    /// Where a client that has been upgraded fetches the last messages by polling.
    var formerTransport: LongPollTransport?
    let isLoopback: Bool
    let remoteAddress: String
    /// The same, for the limits.
    let address: IPAddress?
    /// Requests refused over a limit since the last that was not.
    var refusedInARow = 0

    var login: Session
    var listens: [ListenTarget: RealtimeListen] = [:]
    var disconnects = DisconnectQueue()
    /// Requests that wait while a login is checked, or an earlier session of the client is being ended; and those that
    /// depend on unfinished ones before them. From `nextWaiting` on.
    private var waiting: [ClientRequest] = []
    private var nextWaiting = 0
    private var holds = 0
    /// Requests for orders that are not being stored yet.
    var unstored: [Int64] = []
    var isStoring = false
    /// The orders that the database has.
    var storedDisconnects = DisconnectQueue()
    /// The database may have others: a save of them was not answered.
    var isStoreUnsure = false
    /// The orders have changed since they began to be stored.
    var mustStoreAgain = false
    /// Writes that are not answered yet, and what is to be done when they are.
    var writes: [UInt64: (RealtimeSession, WriteOutcome) -> Void] = [:]
    /// The transaction that waits for its turn. Nothing that came after it waits.
    var waitingTransaction: WaitingTransaction?
    /// Where others may wait for a transaction of this client.
    var contended: Set<TransactionPlace> = []
    /// Answers to writes that wait until conflated listens have been sent their values.
    private var heldAnswers: [[UInt8]] = []
    private(set) var isEnded = false
    private(set) var isClosing = false
    /// The state as of which all listens were checked against the rules.
    var recheckedSeq: Int64 = -1
    /// Monotonic milliseconds of the last sign of life.
    var lastHeard = Clock.monotonicMilliseconds
    /// The same of the last that the client's program sent, not only what it runs on.
    var lastSaid = Clock.monotonicMilliseconds

    init(
        _ id: String, _ loop: GatewayLoop, _ namespace: LiveNamespace, _ transport: any RealtimeTransport,
        isLoopback: Bool, remoteAddress: String
    ) {
        self.id = id
        self.loop = loop
        self.namespace = namespace
        self.transport = transport
        self.isLoopback = isLoopback
        self.remoteAddress = remoteAddress
        login = .anonymous(isLoopback: isLoopback)
        address = IPAddress(remoteAddress)
    }

    var settings: GatewaySettings { loop.gateway.settings }

    // MARK: Messages

    /// Takes a whole message. False when the connection must be closed.
    func take(_ message: [UInt8]) -> Bool {
        guard !isEnded, !isClosing else { return true }
        do throws(MessageError) {
            switch try ClientMessageParser.parse(message) {
            case .ping: answer(ServerMessage.pong)
            case .control("n"): return endPolling()
            case .control: break
            case .request(let request):
                guard admits(request) else { return refusedInARow <= settings.limits.maxRefusedMessages }
                sendWaitingTransaction()
                if waiting.isEmpty, !mustWait(request) {
                    perform(request)
                    return true
                }
                guard waiting.count - nextWaiting < settings.maxWaitingRequests else { return false }
                waiting.append(request)
            }
            return true
        } catch {
            loop.gateway.logger.debug("realtime message refused", [("session", id), ("reason", error.reason)])
            return false
        }
    }

    /// Later requests wait until as many releases.
    func hold() { holds += 1 }

    func release() {
        holds -= 1
        performWaiting()
    }

    /// Whether a request can't be performed yet: requests are applied in the order of their arrival (reference:
    /// rtdb-protocol 3.6). What reads is judged and answered as of all writes before it. And no write is done before the
    /// orders that came before it are stored, or a dead gateway would leave a client present that had said how to leave.
    private func mustWait(_ request: ClientRequest) -> Bool {
        if holds > 0 { return true }
        if !writes.isEmpty, request.action.reads { return true }
        return isStoring && request.action.writes
    }

    /// Orders have been stored, or could not be.
    func hasStored() {
        closeIfDone()
        performWaiting()
    }

    private func performWaiting() {
        while nextWaiting < waiting.count, !mustWait(waiting[nextWaiting]), !isClosing, !isEnded {
            let request = waiting[nextWaiting]
            nextWaiting += 1
            perform(request)
        }
        guard nextWaiting == waiting.count else { return }
        waiting.removeAll(keepingCapacity: nextWaiting < 64)
        nextWaiting = 0
    }

    private func perform(_ request: ClientRequest) {
        let number = request.number
        let isLast = nextWaiting == waiting.count
        switch request.action {
        case .stats, .appCheck: answer(number, "ok", .none)
        case .listen(let target, let hash, let compound): listen(number, target, hash, compound)
        case .unlisten(let target): unlisten(number, target)
        case .get(let path, let query): get(number, path, query)
        case .put(let path, let value, let hash, let byteCount):
            write(
                number, .set(path, value.node), hash: hash, operation: value.node.isNull ? .remove : .set,
                hasServerValue: value.hasServerValue, byteCount: byteCount, isLast: isLast)
        case .merge(let path, let changes, let hasServerValue, let hash, let byteCount):
            write(
                number, .update(base: path, changes), hash: hash, operation: .update, hasServerValue: hasServerValue,
                byteCount: byteCount, isLast: isLast)
        case .onDisconnectPut(let path, let value):
            order(number, [Change(path: path, value: value)]) { $0.put(path, value) }
        case .onDisconnectMerge(_, let changes): order(number, changes) { $0.merge(changes) }
        case .onDisconnectCancel(let path): order(number, nil) { $0.cancel(path) }
        case .authenticate(let login): authenticate(number, login)
        case .unauthenticate: unauthenticate(number)
        case .echo(let value): answer(number, "ok", .raw(value.text))
        case .refused(let reason): answer(number, "failure", .text(reason))
        }
    }

    // MARK: Answers

    func answer(_ number: Int64, _ status: String, _ detail: ServerMessage.Detail) {
        answer(ServerMessage.answer(number, status, detail))
    }

    func answer(_ message: [UInt8]) {
        if !isEnded { _ = transport.send(message) }
    }

    /// Answers a write: behind the values of listens that had to be conflated, which hold what it changed.
    func answerWrite(_ number: Int64, _ status: String, _ detail: ServerMessage.Detail) {
        let message = ServerMessage.answer(number, status, detail)
        if listens.values.contains(where: { $0.state == .conflated }) {
            heldAnswers.append(message)
        } else {
            answer(message)
        }
    }

    func sendHeldAnswers() {
        for message in heldAnswers { answer(message) }
        heldAnswers.removeAll()
    }

    // MARK: The end

    /// Takes no more requests, answers the writes that are under way, and closes: the client reconnects.
    func close() {
        guard !isClosing, !isEnded else { return }
        isClosing = true
        sendWaitingTransaction()
        closeIfDone()
    }

    private func closeIfDone() {
        guard isClosing, !isEnded, writes.isEmpty, !isStoring else { return }
        transport.close()
        loop.ended(id)
    }

    /// A write was answered.
    func writeAnswered() {
        closeIfDone()
        performWaiting()
    }

    /// The connection is gone, however that came: what the client had asked for in this case is done.
    func ended(_ completion: @escaping @Sendable () -> Void = {}) {
        guard !isEnded else { return completion() }
        isEnded = true
        leaveLines()
        upgrade?.transport.close()
        formerTransport?.close()
        for listen in listens.values { loop.forget(listen) }
        listens.removeAll()
        writes.removeAll()
        waiting.removeAll()
        nextWaiting = 0
        if !disconnects.isEmpty { return loop.gateway.engine.sessions.end(stored, completion) }
        // With nothing to be done, the session is forgotten there.
        if isStoreUnsure { loop.gateway.engine.sessions.save(stored) { _ in } }
        completion()
    }

    /// The session and what it wants done at its end.
    var stored: SessionOrders {
        SessionOrders(
            id: id, namespace: namespace, orders: disconnects.orders.map(\.changes), auth: login.context,
            origin: login.origin(via: .ws, address: remoteAddress))
    }
}
