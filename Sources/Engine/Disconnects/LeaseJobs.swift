import LogStore
import Runtime

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
