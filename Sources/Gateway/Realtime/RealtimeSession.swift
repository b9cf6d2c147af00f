import Engine
import HTTPServer
import Placement
import Rules
import Runtime
import Tree
import Wire

/// One realtime client: performs its requests in order, and answers them. Belongs to its loop's thread.
///
/// The order matters: the writer's own listens receive the changes of a write before the write is answered, and the
/// data of a listen is sent before the answer to the listen (reference: rtdb-protocol 3.6). Committers post changes to
/// a loop before they post outcomes, and the loop processes both in that order.
///
/// The session keeps the order with `waiting`, a queue of requests that can't be performed yet:
///
///     take(message)
///       |-- short: ping, control --> handled at once
///       |-- short: request --------> perform, or waiting: .read
///       `-- long ------------------> waiting: .unread --> .reading (worker) --> .read or .refused
///
///     performWaiting --> perform --+--> answer
///                                  `--> writes[n] --outcome of the commit--> answerWrite
///
/// A request goes into the queue if the queue is not empty, if the loop's slice of time is over, or if `mustWait`
/// returns true:
///
/// - `holds` is above 0. A login is being checked, a worker encodes a value, an earlier session of the client is being
///   ended, or a similar task is unfinished. All requests wait.
/// - `writes` has a write without an outcome. Requests that read wait, because their answers must include all earlier
///   writes.
/// - A save of onDisconnect operations is in flight. Writes wait until the operations are stored.
///
/// After `close()` the session accepts no more requests, and ends when its writes are answered. When its connection
/// closes, the session ends at once, and the outcomes of its writes are not answered. Either way the onDisconnect
/// operations are executed at the end:
///
///     open --close()--> closing --all writes answered, no save in flight--> ended
///       |                  |                                                  ^
///       `------------------+------- the connection closes --------------------'
final class RealtimeSession {
    let id: String
    let context: RealtimeContext
    unowned let host: any RealtimeHost
    let loop: EventLoop
    let namespace: LiveNamespace
    /// The engine of the namespace's database.
    let engine: Engine
    var transport: any SessionTransport {
        didSet { for listen in listens.values { listen.transport = transport } }
    }
    /// A socket that is about to replace polling, and the progress of the upgrade.
    var upgrade: (transport: RelayedWebSocketTransport, steps: TransportUpgrade)?
    /// The polling transport from which an upgraded client fetches the last messages.
    var formerTransport: LongPollTransport?
    /// Whether the client has requested the gateway's extension: marks, waits, and listens that resume after an entry.
    let isExtended: Bool
    /// Waits in progress for entries, by their requests.
    var waits: [Int64: LogWait] = [:]
    let isLoopback: Bool
    let remoteAddress: String
    /// The remote address in binary form, for the limits.
    let address: IPAddress?
    /// Number of consecutive requests that a rate limit refused.
    var refusedInARow = 0

    var login: Identity
    /// The number of logins.
    var loginNumber = 0 {
        didSet { for listen in listens.values { listen.loginNumber = loginNumber } }
    }
    /// Listens that still have to be checked against the newest login and rules.
    var listensToCheck: [ListenTarget] = []
    var isHeldForChecks = false
    /// The number of listens that are not live: their values have to be sent first.
    var unsettledListens = 0
    var listens: [ListenTarget: RealtimeListen] = [:]
    /// Queued requests, from `nextWaiting` on. They wait while a login is checked, while an earlier session of the
    /// client is being ended, or for unfinished earlier requests.
    var waiting: [WaitingRequest] = []
    var nextWaiting = 0
    var holds = 0
    /// The memory share of the request that is being performed, kept until it is finished.
    var performed: MemoryShare?
    /// Whether the loop's next slice continues with the waiting requests.
    var isToPerform = false
    /// The memory share of incomplete polled messages.
    var pollingShare: MemoryShare?
    /// The onDisconnect operations, and the state of saving them.
    var saving = DisconnectSaving()
    /// The memory share of the operations.
    var operationsShare: MemoryShare?
    /// The gateway's lease under which the session began.
    let lease: LeaseNumber
    /// Unanswered writes, with their handlers.
    var writes: [UInt64: (RealtimeSession, WriteOutcome) -> Void] = [:]
    /// The unanswered write that other clients' writes may overtake. This client's later requests, and the end of its
    /// session, wait for it.
    var largeWrite: UInt64?
    /// The transaction that waits for its slot. Later requests wait for it only if it is holding.
    var waitingTransaction: WaitingTransaction?
    /// The paths where other clients may wait for a transaction of this client.
    var contended: Set<TransactionKey> = []
    /// Answers to writes that wait until conflated listens have received their values.
    private var heldAnswers: [[UInt8]] = []
    private(set) var isEnded = false
    private(set) var isClosing = false
    /// The seq of the state against which all listens were last checked.
    var recheckedSeq: Int64 = -1
    /// Monotonic milliseconds when the client last sent anything.
    var lastHeard = Clock.monotonicMilliseconds
    /// Monotonic milliseconds when the client's program, and not only its platform, last sent a message.
    var lastSaid = Clock.monotonicMilliseconds

    init(
        _ id: String, _ host: any RealtimeHost, _ loop: EventLoop, _ namespace: LiveNamespace,
        _ transport: any SessionTransport, isLoopback: Bool, remoteAddress: String, isExtended: Bool
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

    /// - Parameter mark: the entry that the answer reflects; sent only to clients with the extension.
    func answer(_ number: Int64, _ status: String, _ detail: ServerMessage.Detail, at mark: LogMark? = nil) {
        answer(message(number, status, detail, mark))
    }

    /// Writes an answer, and reports it if the rules deny the request.
    private func message(
        _ number: Int64, _ status: String, _ detail: ServerMessage.Detail, _ mark: LogMark?
    ) -> [UInt8] {
        if let onDenial = settings.onDenial, status == RealtimeStatus.permissionDenied.rawValue {
            onDenial(namespace.name)
        }
        return ServerMessage.answer(number, status, detail, isExtended ? mark : nil)
    }

    func answer(_ message: [UInt8]) {
        if !isEnded { _ = transport.send(message) }
    }

    /// Answers a write. If listens are conflated, the answer waits for their values, which include the written changes.
    func answerWrite(_ number: Int64, _ status: String, _ detail: ServerMessage.Detail, at mark: LogMark? = nil) {
        let message = message(number, status, detail, mark)
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

    // MARK: Closing

    /// Accepts no more requests, answers the writes in flight, and closes: the client reconnects.
    func close() {
        guard !isClosing, !isEnded else { return }
        sendWaitingTransactions()
        isClosing = true
        closeIfDone()
    }

    /// Closes once all writes are answered.
    func closeIfDone() {
        guard isClosing, !isEnded, writes.isEmpty, !saving.isSaving else { return }
        transport.close()
        host.ended(id)
    }

    /// Handles that a write was answered.
    func writeAnswered() {
        closeIfDone()
        performWaiting()
    }

    /// Ends the session after its connection has closed for any reason, and executes its onDisconnect operations.
    func ended(_ completion: @escaping @Sendable () -> Void = {}) {
        guard !isEnded else { return completion() }
        // SDKs do not expect the waiting transaction to be executed. Writes that waited for it are executed.
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
    /// Returns whether the rate limits admit a request; answers the request if not.
    func admits(_ request: ClientRequest) -> Bool {
        let limiter = context.limiter
        let refusal =
            address.flatMap { limiter.request(from: $0) } ?? limiter.request(by: login, in: namespace.name)
        guard refusal != nil else {
            refusedInARow = 0
            return true
        }
        // Refusing an unlisten would only make the client receive more.
        if case .unlisten = request.action { return true }
        refusedInARow += 1
        answerTooMany(request.number)
        return false
    }

    /// The protocol has no status for rate limits. Clients know "unavailable", and pass the text to their callers.
    func answerTooMany(_ number: Int64) {
        answer(number, "unavailable", .text(RESTError.tooManyRequests.message))
    }
}

extension RealtimeSession {
    /// Maximum number of concurrent waits of one client. A client needs one wait for each entry that it learns about
    /// elsewhere.
    private static let maxWaits = 16

    /// Answers once this gateway has sent the client's listens all changes up to an entry, or after a timeout.
    ///
    /// Only clients that can read something may learn how long the log is: clients with a listen, and clients that may
    /// read the named path (docs/reference/security.md).
    func wait(_ number: Int64, _ seq: Int64, _ path: Path?) {
        guard isExtended else { return answer(number, "failure", .text("Unknown action")) }
        guard mayWait(path) else { return answer(number, "permission_denied", .text("Permission denied")) }
        guard waits.count < Self.maxWaits else {
            return answer(number, "unavailable", .text("Too many waits are in progress."))
        }
        let milliseconds = settings.minSeqWaitMilliseconds
        let timer = loop.schedule(afterMilliseconds: milliseconds) { [weak self] in self?.giveUpWait(number) }
        waits.updateValue(LogWait(seq: seq, path: path, timer: timer), forKey: number)?.timer.cancel()
        namespace.whenReported(seq, within: Int64(milliseconds)) { [sessionLoop = host.sessionLoop, id] in
            // The changes were posted to this loop before, so the answer follows them.
            sessionLoop.post(to: id) { $0.reached(number) }
        }
    }

    private func mayWait(_ path: Path?) -> Bool {
        if login.context.readsEverything || !listens.isEmpty { return true }
        return path.map { mayRead($0, nil, namespace.snapshot) } ?? false
    }

    private func reached(_ number: Int64) {
        guard let wait = waits.removeValue(forKey: number) else { return }
        wait.timer.cancel()
        guard mayWait(wait.path) else { return answer(number, "permission_denied", .text("Permission denied")) }
        // If listens are conflated, the answer follows their values.
        answerWrite(number, "ok", .none, at: LogMark(seq: wait.seq))
    }

    private func giveUpWait(_ number: Int64) {
        guard waits.removeValue(forKey: number) != nil else { return }
        answer(number, "unavailable", .text("This gateway has not applied the entry yet."))
    }

    /// Cancels all waits at the end of the session.
    func cancelWaits() {
        for wait in waits.values { wait.timer.cancel() }
        waits.removeAll()
    }
}

/// A realtime client's wait for an entry of the log, while it is in progress.
struct LogWait {
    let seq: Int64
    /// The path whose read permission entitles the client to wait, if it names one.
    let path: Path?
    /// Ends the wait after a timeout.
    let timer: LoopTimer
}
