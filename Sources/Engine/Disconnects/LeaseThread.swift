import LogStore
import Runtime

/// The thread that owns the gateway's lease. Over its connection it renews the lease, saves and executes onDisconnect
/// operations, and sends messages to other gateways.
///
/// The three tasks share one connection because PostgreSQL accepts a save only from the newest connection of a lease,
/// and because the other tasks rarely need one.
final class LeaseThread {
    private let core: EngineCore
    private let jobs: LeaseJobs
    private let leased: LeasedConnection
    private let saver: DisconnectSaver
    private let executor: DisconnectExecutor

    init(_ core: EngineCore, _ leases: GatewayLeases, _ disconnects: DisconnectKeeper, _ jobs: LeaseJobs) {
        self.core = core
        self.jobs = jobs
        leased = LeasedConnection(core, leases)
        saver = DisconnectSaver(core, leases, leased)
        executor = DisconnectExecutor(core, leases, disconnects, jobs)
    }

    func run() {
        while true {
            switch jobs.next(milliseconds: max(1, leased.nextRenewal - Clock.monotonicMilliseconds)) {
            case .stop: return leased.close()
            case .nothing: perform(nil)
            case .job(let job): perform(job)
            }
        }
    }

    private func perform(_ job: LeaseJob?) {
        if case .save(let saving) = job, saver.refusesAtOnce(saving) { return }
        var isBegun = false
        do throws(LogStoreError) {
            let (connection, lease) = try prepared()
            isBegun = true
            if let job { try perform(job, connection, lease) }
        } catch {
            if error.isConnectionLost { leased.disconnect() }
            if !isBegun {
                leased.couldNotLook()
                saver.couldNotBegin()
            }
            saver.giveUpUnanswered()
            if let job { failed(job, isBegun: isBegun) }
            core.pause(milliseconds: 100)
        }
    }

    /// Returns a connection that owns the lease, after renewing the lease if that is due.
    private func prepared() throws(LogStoreError) -> (LogConnection, GatewayLease) {
        let connection = try leased.connected()
        leased.start()
        while true {
            switch leased.next() {
            case .giveUp(let lease): try leased.giveUp(lease, connection)
            case .takeOver(let lease): try leased.takeOver(lease, connection)
            case .begin: try leased.begin(connection)
            case .settle(let lease):
                try saver.settle(lease, connection)
                leased.settled()
            case .renew(let lease):
                guard try leased.renew(lease, connection) else { continue }
                jobs.addRetries()
                try leased.endExpiredLeases(lease, connection)
                try executor.executeOrphaned(connection)
            case .ready(let lease): return (connection, lease)
            }
        }
    }

    private func perform(
        _ job: LeaseJob, _ connection: LogConnection, _ lease: GatewayLease
    ) throws(LogStoreError) {
        switch job {
        case .save(let saving): try saver.save(saving, connection, lease)
        case .execute(let ended): try executor.execute(ended, connection, lease)
        case .takeOver(let takeover): try executor.takeOver(takeover, connection)
        case .notify(let text):
            if let message = core.peers.message(text) { try connection.notifyPeers(message) }
        }
    }

    /// - Parameter isBegun: whether parts of the job may have been sent.
    private func failed(_ job: LeaseJob, isBegun: Bool) {
        switch job {
        // A save that was begun reports its outcome itself.
        case .save(let saving): if !isBegun { saving.completion(.refused) }
        case .execute: jobs.retry(job)
        case .takeOver(let takeover): takeover.completion()
        // A lost message only causes some refused transactions.
        case .notify: break
        }
    }
}

/// A job for the connection that owns the lease.
enum LeaseJob: Sendable {
    case save(SavingOperations)
    case execute(EndedSession)
    case takeOver(SessionTakeover)
    /// Send this text to the other gateways.
    case notify(String)
}

/// The jobs of the lease's thread, which executes them in the order in which they were added. Any thread may add jobs.
final class LeaseJobs: Sendable {
    enum Next: Sendable {
        case job(LeaseJob)
        /// No job was added within the given time.
        case nothing
        case stop
    }

    private struct State {
        var jobs: [LeaseJob] = []
        var retries: [LeaseJob] = []
        var isStopping = false
    }
    private let state = Condition(State())

    func add(_ job: LeaseJob) { state.broadcast { $0.jobs.append(job) } }

    /// Keeps a job until the database has answered.
    func retry(_ job: LeaseJob) { state.withLock { $0.retries.append(job) } }

    /// Queues the jobs that wait for a retry after the others, once the database has answered.
    func addRetries() {
        state.withLock { state in
            state.jobs.append(contentsOf: state.retries)
            state.retries.removeAll()
        }
    }

    /// Waits for the next job, at most `milliseconds`.
    func next(milliseconds: Milliseconds) -> Next {
        let next = state.wait(milliseconds: milliseconds) { state -> Next? in
            if state.isStopping { return .stop }
            return state.jobs.isEmpty ? nil : .job(state.jobs.removeFirst())
        }
        return next ?? .nothing
    }

    /// Makes `next` return `.stop` from now on. The remaining jobs are not executed.
    func stop() { state.broadcast { $0.isStopping = true } }
}
