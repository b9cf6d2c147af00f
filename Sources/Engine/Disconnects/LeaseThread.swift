import LogStore
import Runtime

/// The thread that has the gateway's lease. By its connection it renews the lease, saves and executes onDisconnect
/// operations, and tells other gateways what they are to be told.
///
/// The three share the connection as PostgreSQL takes a save only by the newest connection of a lease, and as the others
/// need one rarely.
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

    /// A connection that has the lease, which is renewed in time.
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
        case .tell(let text):
            if let message = core.peers.message(text) { try connection.tellPeers(message) }
        }
    }

    /// - Parameter isBegun: something of the job may have been sent.
    private func failed(_ job: LeaseJob, isBegun: Bool) {
        switch job {
        // A save that was begun tells its outcome itself.
        case .save(let saving): if !isBegun { saving.completion(.refused) }
        case .execute: jobs.retry(job)
        case .takeOver(let takeover): takeover.completion()
        // A lost message costs refusals of transactions, and nothing else.
        case .tell: break
        }
    }
}

/// Something that is done by the leased connection.
enum LeaseJob: Sendable {
    case save(SavingOperations)
    case execute(EndedSession)
    case takeOver(SessionTakeover)
    /// Send this to the other gateways.
    case tell(String)
}

/// The jobs of the lease's thread, which does them in the order in which they were added. Any thread may add.
final class LeaseJobs: Sendable {
    enum Next: Sendable {
        case job(LeaseJob)
        /// Nothing was added for so long.
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

    /// The database has answered: jobs that wait to be tried again are done behind the others.
    func addRetries() {
        state.withLock { state in
            state.jobs.append(contentsOf: state.retries)
            state.retries.removeAll()
        }
    }

    /// Waits for the next job, at most so long.
    func next(milliseconds: Milliseconds) -> Next {
        let next = state.wait(milliseconds: milliseconds) { state -> Next? in
            if state.isStopping { return .stop }
            return state.jobs.isEmpty ? nil : .job(state.jobs.removeFirst())
        }
        return next ?? .nothing
    }

    /// Ends `next`'s waiting for good. Jobs that are left are not done.
    func stop() { state.broadcast { $0.isStopping = true } }
}
