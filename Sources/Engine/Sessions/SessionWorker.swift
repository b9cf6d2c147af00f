import LogStore
import Postgres
import Rules
import Runtime
import Tree

/// The thread of the sessions: does the keeper's jobs, keeps the gateway's lease, watches the other gateways.
///
/// The fences: each lease has an id of its own, and each connection a number in the lease's row. PostgreSQL takes a save
/// only of a lease that is not over, by its newest connection. So what became of a save whose answer was lost is certain
/// once another connection has taken the lease over; nobody is refused before that.
final class SessionWorker {
    private let core: EngineCore
    private let keeper: SessionKeeper
    private var session: LogConnection?
    private var lease: GatewayLease?
    /// This connection's number is in the lease's row.
    private var hasTakenOver = false
    /// A save that was sent and not answered.
    private var unsure: (saving: SavingSession, since: Int64)?
    private var watch: GatewayWatch
    private var nextBeat: Int64 = 0
    /// Before this, saves are refused without a try, if the database is away.
    private var nextTry: Int64 = 0
    /// The history of the database that the lease is of.
    private var knownHistory = 0

    init(_ core: EngineCore, _ keeper: SessionKeeper) {
        self.core = core
        self.keeper = keeper
        watch = GatewayWatch(
            leaseExpiryMilliseconds: core.settings.leaseExpiryMilliseconds,
            beatMilliseconds: core.settings.heartbeatMilliseconds)
    }

    func run() {
        while true {
            let next = keeper.next(milliseconds: max(1, nextBeat - Clock.monotonicMilliseconds))
            if case .stop = next { break }
            let job: SessionJob? = if case .job(let job) = next { job } else { nil }
            if let job, refusesAtOnce(job) { continue }
            var wasBegun = false
            do throws(LogStoreError) {
                let (session, lease) = try prepared()
                wasBegun = true
                if let job { try perform(job, session, lease) }
            } catch {
                if error.isConnectionLost { disconnect() }
                if !wasBegun {
                    watch.forget()
                    nextTry = Clock.monotonicMilliseconds + 1_000
                }
                giveUpUnsure()
                if let job { failed(job, wasBegun: wasBegun) }
                core.pause(milliseconds: 100)
            }
        }
        if let session, session.isOpen, let lease { try? session.endLease(lease) }
        session?.close()
    }

    /// While the database is away only one save in a while finds out whether it still is.
    private func refusesAtOnce(_ job: SessionJob) -> Bool {
        guard case .save(let saving) = job, core.health.refusal != nil, Clock.monotonicMilliseconds < nextTry else {
            return false
        }
        saving.completion(.refused)
        return true
    }

    // MARK: Connection and lease

    /// Sees to it that there is a connection under the lease, and that the lease is renewed in time.
    private func prepared() throws(LogStoreError) -> (LogConnection, GatewayLease) {
        let session = try connected()
        try leaveLostHistory(session)
        var current = try heldLease(session)
        // Where the database may be away, it is asked before something is sent whose outcome would be unknown.
        if Clock.monotonicMilliseconds >= nextBeat || !core.health.isUp {
            try beat(session, current)
            current = try heldLease(session)
        }
        return (session, current)
    }

    /// Where the database has lost entries, it may have lost saves, and have rows again of sessions that are over: the
    /// clients are to say anew what they want, and what is there is for whoever finds it without a lease.
    private func leaveLostHistory(_ session: LogConnection) throws(LogStoreError) {
        let number = core.historyNumber
        // Once for all namespaces that are found to have lost something together.
        guard number != knownHistory, !core.namespaces.all.contains(where: \.isSuspect) else { return }
        if let lease { try session.endLease(lease) }
        if lease != nil { leaseLost() }
        hasTakenOver = false
        knownHistory = number
    }

    private func connected() throws(LogStoreError) -> LogConnection {
        // What is lost already is replaced before something is sent by it whose outcome would be unknown.
        if let session, session.isOpen, (try? session.checkConnection()) != nil { return session }
        disconnect()
        let new = try core.connect("sessions")
        session = new
        return new
    }

    private func disconnect() {
        session?.close()
        session = nil
        hasTakenOver = false
        watch.forget()
    }

    /// The lease, taken over by this connection; another where it was lost.
    private func heldLease(_ session: LogConnection) throws(LogStoreError) -> GatewayLease {
        if let lease, hasTakenOver { return lease }
        if let known = lease {
            lease = try session.takeOver(known)
            if lease == nil { keeper.leaseLost() }
        }
        // Another id each time: what was sent under an earlier one must never be taken again.
        let current: GatewayLease
        if let lease { current = lease } else { current = try session.beginLease(Batch.makeID()) }
        lease = current
        try settle(session, current)
        hasTakenOver = true
        nextBeat = 0
        return current
    }

    /// The lease is over: what is queued of its sessions is thrown away when its turn comes.
    private func leaseLost() {
        lease = nil
        keeper.leaseLost()
    }

    private func beat(_ session: LogConnection, _ current: GatewayLease) throws(LogStoreError) {
        guard let number = try session.heartbeat(current) else { return leaseLost() }
        lease?.beat = number
        nextBeat = Clock.monotonicMilliseconds + core.settings.heartbeatMilliseconds
        keeper.takeUpRetries()
        let asked = Clock.monotonicMilliseconds
        let beats = try session.beats(otherThan: current)
        for dead in watch.look(beats, asked: asked, answered: Clock.monotonicMilliseconds) {
            if try session.endLease(of: dead) {
                core.logger.warning(
                    "a gateway gives no sign of life: its sessions are ended", [("lease", dead.gateway)])
            }
        }
        for orphan in try session.orphanedSessions(limit: 1_000) {
            try execute(orphan.session, orphan.claim, session) { _ in }
        }
    }

    // MARK: Jobs

    private func perform(
        _ job: SessionJob, _ session: LogConnection, _ current: GatewayLease
    ) throws(LogStoreError) {
        switch job {
        case .save(let saving): try save(saving, session, current)
        case .end(let ending): try end(ending, session, current)
        case .adopt(let adopted): try adopt(adopted, session)
        case .tell(let message): try session.tellPeers(message)
        }
    }

    /// - Parameter wasBegun: something of it may have been sent.
    private func failed(_ job: SessionJob, wasBegun: Bool) {
        switch job {
        // Once begun, it has seen to its outcome itself.
        case .save(let saving): if !wasBegun { saving.completion(.refused) }
        case .end: keeper.retry(job)
        case .adopt(let adopted): adopted.completion()
        case .tell: break
        }
    }

    private func save(
        _ saving: SavingSession, _ session: LogConnection, _ current: GatewayLease
    ) throws(LogStoreError) {
        guard saving.lease == keeper.lease else { return saving.completion(.over) }
        do throws(LogStoreError) {
            switch try session.saveSession(saving.save, current) {
            case .saved: saving.completion(.saved)
            case .ended: saving.completion(.over)
            case .lost:
                leaseLost()
                saving.completion(.over)
            }
        } catch {
            if case .database(let cause) = error, cause.sqlState != nil, !error.isConnectionLost {
                saving.completion(.refused)
            } else {
                unsure = (saving, Clock.monotonicMilliseconds)
                disconnect()
            }
            throw error
        }
    }

    /// Finds out what became of a save whose answer was lost. It can't come later any more.
    private func settle(_ session: LogConnection, _ current: GatewayLease) throws(LogStoreError) {
        guard let (saving, _) = unsure else { return }
        var outcome = SaveOutcome.over
        if saving.lease == keeper.lease {
            let stored = saving.save.session
            let number = try session.savedNumber(stored.namespace, stored.id, gateway: current.gateway)
            // No row: its first save never came, or others have carried it out since.
            if let number { outcome = number == saving.save.number ? .saved : .refused }
        }
        unsure = nil
        saving.completion(outcome)
    }

    /// Its client has waited long enough for a database that doesn't come back.
    private func giveUpUnsure() {
        guard let (saving, since) = unsure,
            Clock.monotonicMilliseconds - since > core.settings.commitDeadlineMilliseconds
        else { return }
        unsure = nil
        saving.completion(.unknown)
    }

    private func end(
        _ ending: EndingSession, _ session: LogConnection, _ current: GatewayLease
    ) throws(LogStoreError) {
        let done = { @Sendable [keeper] in
            keeper.finished()
            ending.completion()
        }
        // Its row is for whoever finds it without a lease, if that was not yet.
        guard ending.lease == keeper.lease else { return done() }
        let claim = SessionClaim(session: ending.session.id, gateway: current.gateway, save: nil)
        try execute(ending.session, claim, session) { [keeper] outcome in
            if case .failed(let error) = outcome, error != .stopping {
                // Nothing was done, or it can't be done twice: it is tried until it is known to be done.
                keeper.retry(.end(ending))
            } else {
                done()
            }
        }
    }

    private func adopt(_ adopted: AdoptedSession, _ session: LogConnection) throws(LogStoreError) {
        guard adopted.triesLeft > 0, let found = try session.session(adopted.namespace.id, adopted.id) else {
            return adopted.completion()
        }
        try execute(found.session, found.claim, session) { [keeper] outcome in
            if case .failed = outcome { return adopted.completion() }
            // It is done, or it was saved anew meanwhile: that is seen by looking again.
            keeper.add(
                .adopt(
                    AdoptedSession(
                        namespace: adopted.namespace, id: adopted.id, triesLeft: adopted.triesLeft - 1,
                        completion: adopted.completion)))
        }
    }

    /// Does what a session had asked for, once, whoever else tries; its row goes with it.
    private func execute(
        _ stored: StoredSession, _ claim: SessionClaim, _ session: LogConnection,
        _ completion: @escaping @Sendable (WriteOutcome) -> Void
    ) throws(LogStoreError) {
        guard !stored.operations.isEmpty else {
            try session.forgetSession(stored.namespace, claim)
            return completion(.committed(seq: 0, changes: []))
        }
        let auth = stored.isAdmin ? AuthContext.admin : AuthContext(auth: stored.auth)
        let write = Write(
            .disconnect(claim, operations: stored.operations), operation: .disconnect, hasServerValue: true,
            byteCount: 256,
            auth: auth, origin: stored.origin)
        let sink = OperationSink(completion)
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
}

/// Hands one outcome to a closure.
private final class OperationSink: WriteSink {
    private let body: @Sendable (WriteOutcome) -> Void

    init(_ body: @escaping @Sendable (WriteOutcome) -> Void) { self.body = body }

    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        for (_, outcome) in outcomes { body(outcome) }
    }
}
