import LogStore
public import Rules
import Runtime
import Synchronization
public import Tree

/// A realtime session and what it wants done when it ends.
public struct SessionOrders: Sendable {
    public let id: String
    public let namespace: LiveNamespace
    /// Each is one write; server values unresolved.
    public let orders: [[Change]]
    /// Whom the rules judge.
    public let auth: AuthContext
    /// Who it is, for the log.
    public let origin: Origin?

    public init(id: String, namespace: LiveNamespace, orders: [[Change]], auth: AuthContext, origin: Origin?) {
        self.id = id
        self.namespace = namespace
        self.orders = orders
        self.auth = auth
        self.origin = origin
    }

    /// As the database keeps it.
    fileprivate var stored: StoredSession {
        StoredSession(
            namespace: namespace.id, namespaceName: namespace.name, id: id, orders: orders, isAdmin: auth.isAdmin,
            auth: auth.auth, origin: origin)
    }
}

/// Keeps what realtime sessions want done when they end in PostgreSQL, so that it is done whatever happens to this
/// gateway; does it when they end; and does it for the sessions of gateways that died. One thread, one connection; its
/// jobs run in the order in which they were given.
public final class SessionKeeper: Sendable {
    enum Job: Sendable {
        case save(StoredSession, @Sendable (Bool) -> Void)
        case end(StoredSession, @Sendable () -> Void)
        /// Ends a session that may be another gateway's.
        case adopt(namespace: LiveNamespace, id: String, @Sendable () -> Void)
        case tell(PeerMessage)
    }

    private struct State {
        var jobs: [Job] = []
        /// What is tried again at the next beat.
        var retries: [Job] = []
        /// Orders that could not be carried out yet, as the database was away.
        var unfinished = 0
        var isRegistered = false
        var onTakenForDead: (@Sendable () -> Void)?
    }

    private let core: EngineCore
    private let state = Condition(State())
    private let id = Batch.makeID()

    init(_ core: EngineCore) { self.core = core }

    /// Called when other gateways have taken this one for dead, and done what its sessions had asked for: they must be
    /// closed, so that their clients say anew what they want.
    public func onTakenForDead(_ body: @escaping @Sendable () -> Void) {
        state.withLock { $0.onTakenForDead = body }
    }

    /// Stores a session's orders; calls back with whether that was done.
    public func save(_ session: SessionOrders, _ completion: @escaping @Sendable (Bool) -> Void) {
        state.broadcast { $0.jobs.append(.save(session.stored, completion)) }
    }

    /// Carries out the orders of a session that has ended, after whatever of it is still being saved.
    public func end(_ session: SessionOrders, _ completion: @escaping @Sendable () -> Void = {}) {
        state.broadcast { state in
            state.unfinished += 1
            state.jobs.append(.end(session.stored, completion))
        }
    }

    /// Carries out the orders of a session that its client says is over, on whichever gateway it was.
    public func adopt(_ id: String, in namespace: LiveNamespace, _ completion: @escaping @Sendable () -> Void) {
        state.broadcast { $0.jobs.append(.adopt(namespace: namespace, id: id, completion)) }
    }

    func tell(_ message: PeerMessage) { state.broadcast { $0.jobs.append(.tell(message)) } }

    /// Waits until the orders of all ended sessions are carried out; at most so long.
    func waitUntilDone(milliseconds: Int64) {
        _ = state.wait(milliseconds: milliseconds) { $0.unfinished == 0 ? true : nil }
    }

    func wake() { state.broadcast { _ in } }

    // MARK: The thread

    private enum Next: Sendable {
        case job(Job)
        case beat
        case stop
    }

    func run() {
        var session: LogSession?
        var nextBeat: Int64 = 0
        while true {
            let wait = max(1, nextBeat - Clock.monotonicMilliseconds)
            let next =
                state.wait(milliseconds: wait) { state -> Next? in
                    if core.stopsNow { return .stop }
                    return state.jobs.isEmpty ? nil : .job(state.jobs.removeFirst())
                } ?? .beat
            if case .stop = next { break }
            do throws(LogStoreError) {
                if session?.isOpen != true {
                    session = try core.connect("sessions")
                    state.withLock { $0.isRegistered = false }
                }
                guard let session else { continue }
                if Clock.monotonicMilliseconds >= nextBeat || !state.withLock({ $0.isRegistered }) {
                    try beat(session)
                    nextBeat = Clock.monotonicMilliseconds + core.settings.heartbeatMilliseconds
                }
                if case .job(let job) = next { try perform(job, session) }
            } catch {
                if error.isConnectionLost {
                    session?.close()
                    session = nil
                }
                if case .job(let job) = next { failed(job) }
                core.pause(milliseconds: 100)
            }
        }
        if let session, session.isOpen { try? session.forgetGateway(id) }
        session?.close()
    }

    private func perform(_ job: Job, _ session: LogSession) throws(LogStoreError) {
        switch job {
        case .save(let stored, let completion):
            try session.saveSession(stored, gateway: id)
            completion(true)
        case .end(let stored, let completion): carryOut(stored, isOwn: true, completion)
        case .adopt(let namespace, let id, let completion):
            if let stored = try session.session(namespace.id, id) {
                carryOut(stored, isOwn: false, completion)
            } else {
                completion()
            }
        case .tell(let message): try session.tellPeers(message)
        }
    }

    private func failed(_ job: Job) {
        switch job {
        case .save(_, let completion): completion(false)
        case .end: state.withLock { $0.retries.append(job) }
        case .adopt(_, _, let completion): completion()
        case .tell: break
        }
    }

    private func beat(_ session: LogSession) throws(LogStoreError) {
        if try !session.heartbeat(id) {
            let wasRegistered = state.withLock { state -> Bool in
                defer { state.isRegistered = true }
                return state.isRegistered
            }
            try session.registerGateway(id)
            // A new connection after an outage may be just as late.
            if wasRegistered || hadBeat.withLock({ $0 }) { state.withLock { $0.onTakenForDead }?() }
        }
        state.withLock { state in
            state.isRegistered = true
            state.jobs.append(contentsOf: state.retries)
            state.retries.removeAll()
        }
        hadBeat.withLock { $0 = true }
        let orphans = try session.orphanedSessions(
            unseenForMilliseconds: core.settings.deadAfterMilliseconds, limit: 1_000)
        for orphan in orphans { carryOut(orphan, isOwn: false) {} }
    }

    /// Whether this gateway was registered before.
    private let hadBeat = Mutex(false)

    private func carryOut(_ stored: StoredSession, isOwn: Bool, _ completion: @escaping @Sendable () -> Void) {
        guard !stored.orders.isEmpty else {
            if isOwn { finished() }
            return completion()
        }
        let auth = stored.isAdmin ? AuthContext.admin : AuthContext(auth: stored.auth)
        let write = Write(
            .disconnect(session: stored.id, orders: stored.orders), operation: .disconnect, hasServerValue: true,
            byteCount: 256, auth: auth, origin: stored.origin)
        let sink = OrderSink { [self] outcome in
            if isOwn {
                if case .failed(let error) = outcome, error != .stopping {
                    // Nothing was done, or it can't be done twice: it is tried until it is known to be done.
                    state.withLock { $0.retries.append(.end(stored, completion)) }
                    return
                }
                finished()
            }
            completion()
        }
        if let namespace = core.namespaces.live(id: stored.namespace) {
            return namespace.submit(write, to: sink, token: 0)
        }
        let name = stored.namespaceName
        let isNew = core.namespaces.request(name) { result in
            switch result {
            case .success(let namespace): namespace.submit(write, to: sink, token: 0)
            case .failure(let error): sink.complete([(0, .failed(error))])
            }
        }
        if isNew { core.add(.load(name)) }
    }

    private func finished() {
        state.broadcast { $0.unfinished -= 1 }
    }
}

/// Hands one outcome to a closure.
private final class OrderSink: WriteSink {
    private let body: @Sendable (WriteOutcome) -> Void

    init(_ body: @escaping @Sendable (WriteOutcome) -> Void) { self.body = body }

    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        for (_, outcome) in outcomes { body(outcome) }
    }
}
