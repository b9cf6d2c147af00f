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

    var login: Identity
    /// Counts logins.
    var loginNumber = 0
    /// Listens that are still to be judged by the newest login and rules.
    var listensToCheck: [ListenTarget] = []
    var isHeldForChecks = false
    /// Listens that are not live: their values are to be sent first.
    var unsettledListens = 0
    var listens: [ListenTarget: RealtimeListen] = [:]
    var disconnects = DisconnectQueue()
    /// Requests that wait while a login is checked, or an earlier session of the client is being ended; and those that
    /// depend on unfinished ones before them. From `nextWaiting` on.
    var waiting: [WaitingRequest] = []
    var nextWaiting = 0
    var holds = 0
    /// What the request that is being performed has taken of memory: kept until it is done.
    var performed: MemoryShare?
    /// Whether the loop's next turn goes on with the waiting requests.
    var isToPerform = false
    /// What pieces of polled messages take of memory.
    var pollingShare: MemoryShare?
    /// What the operations take of memory.
    var orderShare: MemoryShare?
    /// Requests for operations that are not being stored yet.
    var unstored: [Int64] = []
    var isStoring = false
    /// The operations that the database has.
    var storedDisconnects = DisconnectQueue()
    /// The gateway's lease under which the session began.
    let lease: SessionLease
    /// Counts the saves of its operations.
    var saves: Int64 = 0
    /// The database has a row of it.
    var isKept = false
    /// The operations have changed since they began to be stored.
    var mustStoreAgain = false
    /// Writes that are not answered yet, and what is to be done when they are.
    var writes: [UInt64: (RealtimeSession, WriteOutcome) -> Void] = [:]
    /// The write among them that others may overtake, but nothing of this client's, its end included.
    var largeWrite: UInt64?
    /// The transaction that waits for its turn. Nothing that came after it waits.
    var waitingTransaction: WaitingTransaction?
    /// Where others may wait for a transaction of this client.
    var contended: Set<TransactionKey> = []
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
        lease = loop.gateway.engine.sessions.lease
        login = .anonymous(isLoopback: isLoopback)
        address = IPAddress(remoteAddress)
    }

    var settings: GatewaySettings { loop.gateway.settings }

    /// Operations have been stored, or could not be.
    func hasStored() {
        closeIfDone()
        performWaiting()
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
        if unsettledListens > 0 {
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

    /// Its operations have been carried out by others, who took the session or the whole gateway for gone: the client is to
    /// come back, and to say anew what it wants. None of its requests for operations is answered.
    func isOver() {
        isKept = false
        disconnects = DisconnectQueue()
        unstored.removeAll()
        mustStoreAgain = false
        close()
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
        loop.forgetLater(Array(listens.values), of: self)
        listens.removeAll()
        listensToCheck.removeAll()
        writes.removeAll()
        waiting.removeAll()
        nextWaiting = 0
        guard isKept || isStoring else { return completion() }
        guard let largeWrite else { return loop.gateway.engine.sessions.end(stored, completion) }
        let sessions = loop.gateway.engine.sessions
        let stored = stored
        loop.endings[largeWrite] = { sessions.end(stored, completion) }
    }

    /// The session and what it wants done at its end.
    var stored: DisconnectOperations {
        DisconnectOperations(
            id: id, namespace: namespace, lease: lease, operations: disconnects.operations.map(\.changes),
            auth: login.context,
            origin: login.origin(via: .ws, address: remoteAddress))
    }
}
