import Engine
import HTTPServer
import Placement
import Rules
import Runtime
import Tree
import Wire

/// One realtime client: takes its requests in order, and answers. Belongs to its loop's thread.
///
/// Order is the point: what a write changes is pushed to the writer's own listens before the write is answered, and data
/// of a listen before the listen is (reference: rtdb-protocol 3.6). Committers tell a loop of changes before they tell it
/// of outcomes, and the loop does both in the order told.
///
/// The session keeps the order by means of `waiting`, a queue of requests that can't be performed yet:
///
///     take(message)
///       |-- short: ping, control --> handled at once
///       |-- short: request --------> perform, or waiting: .read
///       `-- long ------------------> waiting: .unread --> .reading (worker) --> .read or .refused
///
///     performWaiting --> perform --+--> answer
///                                  `--> writes[n] --outcome of the commit--> answerWrite
///
/// A request goes into the queue if the queue has others, if the loop's slice of time is over, or if `mustWait` says so:
///
/// - `holds` is above 0. A login is being checked, a worker makes a value, an earlier session of the client is being ended,
///   or a similar task is unfinished. All requests wait.
/// - `writes` has a write without an outcome. Requests that read wait, as they are answered as of all writes before them.
/// - A save of onDisconnect operations is in flight. Writes wait until the operations are stored.
///
/// After `close()` the session takes no more requests, and ends when its writes are answered. When its connection is gone,
/// the session ends at once, and the outcomes of its writes are not answered. Either way the onDisconnect operations are
/// executed at the end:
///
///     open --close()--> closing --all writes answered, no save in flight--> ended
///       |                  |                                                  ^
///       `------------------+------- the connection is gone -------------------'
final class RealtimeSession {
    let id: String
    let context: RealtimeContext
    unowned let host: any RealtimeHost
    let loop: EventLoop
    let namespace: LiveNamespace
    /// The namespace's.
    let engine: Engine
    var transport: any RealtimeTransport {
        didSet { for listen in listens.values { listen.transport = transport } }
    }
    /// A socket that is to take over from polling, and how far that is.
    var upgrade: (transport: RelayedWebSocketTransport, steps: TransportUpgrade)?
    /// Where a client that has been upgraded fetches the last messages by polling.
    var formerTransport: LongPollTransport?
    /// Whether the client has asked for the gateway's extension: marks, waits, listens that go on behind an entry.
    let isExtended: Bool
    /// Waits for entries that are under way, by their requests.
    var waits: [Int64: LogWait] = [:]
    let isLoopback: Bool
    let remoteAddress: String
    /// The same, for the limits.
    let address: IPAddress?
    /// Requests refused over a limit since the last that was not.
    var refusedInARow = 0

    var login: Identity
    /// Counts logins.
    var loginNumber = 0 {
        didSet { for listen in listens.values { listen.loginNumber = loginNumber } }
    }
    /// Listens that are still to be judged by the newest login and rules.
    var listensToCheck: [ListenTarget] = []
    var isHeldForChecks = false
    /// Listens that are not live: their values are to be sent first.
    var unsettledListens = 0
    var listens: [ListenTarget: RealtimeListen] = [:]
    /// Requests that wait while a login is checked, or an earlier session of the client is being ended; and those that
    /// depend on unfinished ones before them. From `nextWaiting` on.
    var waiting: [WaitingRequest] = []
    var nextWaiting = 0
    var holds = 0
    /// What the request that is being performed has taken of memory: kept until it is done.
    var performed: MemoryShare?
    /// Whether the loop's next slice goes on with the waiting requests.
    var isToPerform = false
    /// What pieces of polled messages take of memory.
    var pollingShare: MemoryShare?
    /// What is executed when the client disconnects, and how far that is saved.
    var saving = DisconnectSaving()
    /// What that takes of memory.
    var operationsShare: MemoryShare?
    /// The gateway's lease under which the session began.
    let lease: LeaseNumber
    /// Writes that are not answered yet, and what is to be done when they are.
    var writes: [UInt64: (RealtimeSession, WriteOutcome) -> Void] = [:]
    /// The write among them that others may overtake, but nothing of this client's, its end included.
    var largeWrite: UInt64?
    /// The transaction that waits for its slot. What came after it waits only if it is holding.
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
        _ id: String, _ host: any RealtimeHost, _ loop: EventLoop, _ namespace: LiveNamespace,
        _ transport: any RealtimeTransport, isLoopback: Bool, remoteAddress: String, isExtended: Bool
    ) {
        self.isExtended = isExtended
        self.id = id
        self.host = host
        self.loop = loop
        context = host.context
        self.namespace = namespace
        self.transport = transport
        self.isLoopback = isLoopback
        self.remoteAddress = remoteAddress
        engine = context.databases.engine(of: namespace)
        lease = engine.leases.current
        login = .anonymous(isLoopback: isLoopback)
        address = IPAddress(remoteAddress)
    }

    var settings: GatewaySettings { context.settings }

    // MARK: Answers

    /// - Parameter mark: as of which entry; told to clients of the extension only.
    func answer(_ number: Int64, _ status: String, _ detail: ServerMessage.Detail, at mark: LogMark? = nil) {
        answer(ServerMessage.answer(number, status, detail, isExtended ? mark : nil))
    }

    func answer(_ message: [UInt8]) {
        if !isEnded { _ = transport.send(message) }
    }

    /// Answers a write: behind the values of listens that had to be conflated, which hold what it changed.
    func answerWrite(_ number: Int64, _ status: String, _ detail: ServerMessage.Detail, at mark: LogMark? = nil) {
        let message = ServerMessage.answer(number, status, detail, isExtended ? mark : nil)
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
        sendWaitingTransactions()
        isClosing = true
        closeIfDone()
    }

    /// Closes once everything is answered.
    func closeIfDone() {
        guard isClosing, !isEnded, writes.isEmpty, !saving.isSaving else { return }
        transport.close()
        host.ended(id)
    }

    /// A write was answered.
    func writeAnswered() {
        closeIfDone()
        performWaiting()
    }

    /// The connection is gone, however that came: its onDisconnect operations are executed.
    func ended(_ completion: @escaping @Sendable () -> Void = {}) {
        guard !isEnded else { return completion() }
        // SDKs do not expect the transaction to be done. Writes that waited for it are done.
        dropWaitingTransactions()
        isEnded = true
        leaveQueues()
        upgrade?.transport.close()
        formerTransport?.close()
        host.forgetLater(Array(listens.values), of: self)
        listens.removeAll()
        listensToCheck.removeAll()
        writes.removeAll()
        cancelWaits()
        waiting.removeAll()
        nextWaiting = 0
        guard saving.mustBeExecuted else { return completion() }
        guard let largeWrite else { return engine.disconnects.execute(stored, completion) }
        let disconnects = engine.disconnects
        let stored = stored
        host.afterWrite(largeWrite) { disconnects.execute(stored, completion) }
    }
}

extension RealtimeSession {
    /// Whether a request may be performed, as far as rates go; it is answered if not.
    func admits(_ request: ClientRequest) -> Bool {
        let limiter = context.limiter
        let refusal =
            address.flatMap { limiter.request(from: $0) } ?? limiter.request(by: login, in: namespace.name)
        guard refusal != nil else {
            refusedInARow = 0
            return true
        }
        // Refusing to send less would make it worse.
        if case .unlisten = request.action { return true }
        refusedInARow += 1
        answerTooMany(request.number)
        return false
    }

    /// The protocol has no status of its own for this: clients know "unavailable", and pass on the text.
    func answerTooMany(_ number: Int64) {
        answer(number, "unavailable", .text(RESTError.tooManyRequests.message))
    }
}

extension RealtimeSession {
    /// The most waits of one client that are under way: a client needs one for each entry that it is told of elsewhere.
    private static let maxWaits = 16

    /// Answers once this gateway has told the client all that its listens have to be told up to an entry, or when that takes
    /// too long.
    ///
    /// How far the log is, is only told to who may read something: whoever has a listen, or may read the place that is
    /// named (docs/reference/security.md, "Who can learn what").
    func wait(_ number: Int64, _ seq: Int64, _ path: Path?) {
        guard isExtended else { return answer(number, "failure", .text("Unknown action")) }
        guard mayWait(path) else { return answer(number, "permission_denied", .text("Permission denied")) }
        guard waits.count < Self.maxWaits else {
            return answer(number, "unavailable", .text("Too many waits are under way."))
        }
        let milliseconds = settings.minSeqWaitMilliseconds
        let timer = loop.schedule(afterMilliseconds: milliseconds) { [weak self] in self?.giveUpWait(number) }
        waits.updateValue(LogWait(seq: seq, path: path, timer: timer), forKey: number)?.timer.cancel()
        namespace.whenTold(seq, within: Int64(milliseconds)) { [home = host.home, id] in
            // Behind the changes, which were posted to this loop before.
            home.post(to: id) { $0.reached(number) }
        }
    }

    private func mayWait(_ path: Path?) -> Bool {
        if login.context.isAdmin || !listens.isEmpty { return true }
        return path.map { mayRead($0, nil, namespace.snapshot) } ?? false
    }

    private func reached(_ number: Int64) {
        guard let wait = waits.removeValue(forKey: number) else { return }
        wait.timer.cancel()
        guard mayWait(wait.path) else { return answer(number, "permission_denied", .text("Permission denied")) }
        // Behind the values of listens that had to be conflated.
        answerWrite(number, "ok", .none, at: LogMark(seq: wait.seq))
    }

    private func giveUpWait(_ number: Int64) {
        guard waits.removeValue(forKey: number) != nil else { return }
        answer(number, "unavailable", .text("This gateway has not come to that entry yet."))
    }

    /// The session is over.
    func cancelWaits() {
        for wait in waits.values { wait.timer.cancel() }
        waits.removeAll()
    }
}

/// A wait of a realtime client for an entry of the log, while it is under way.
struct LogWait {
    let seq: Int64
    /// The place by which the client shows that it may know of the log, if it names one.
    let path: Path?
    /// Gives it up when the entry is too long in coming.
    let timer: LoopTimer
}
