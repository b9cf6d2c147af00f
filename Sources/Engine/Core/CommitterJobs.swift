import Runtime
import Synchronization

/// The namespaces that wait for a committer, in order of arrival, and the committers that wait for work.
///
/// The committer that became idle last gets work first. If few committers are needed, the same few work, and their
/// caches and those of their server processes remain warm for a namespace.
final class CommitterJobs: Sendable {
    /// One job for a committer.
    enum Job: Sendable {
        case work(LiveNamespace)
        /// A batch that another committer has started.
        indirect case resume(BatchProgress)
        case stop
    }

    private struct State: Sendable {
        /// Nil for a job that was taken.
        var waiting: [Job?] = []
        var taken = 0
        var idle: [Int] = []

        var count: Int { waiting.count - taken }

        mutating func next() -> Job? {
            guard taken < waiting.count, let job = waiting[taken] else { return nil }
            waiting[taken] = nil
            taken += 1
            if taken * 2 >= waiting.count {
                waiting.removeFirst(taken)
                taken = 0
            }
            return job
        }

        /// Takes the next job if it is a namespace on which no committer has started.
        mutating func nextNamespace() -> LiveNamespace? {
            guard taken < waiting.count, case .work(let namespace)? = waiting[taken] else { return nil }
            _ = next()
            return namespace
        }

        mutating func putFirst(_ jobs: [Job]) {
            waiting.replaceSubrange(0..<taken, with: jobs)
            taken = 0
        }
    }
    private let state = Mutex(State())
    /// The condition on which each committer waits.
    private let assignments: [Condition<Job?>]

    init(committers: Int) { assignments = (0..<committers).map { _ in Condition(nil) } }

    /// Adds a job for the first free committer. Never blocks.
    func add(_ job: Job) {
        let committer = state.withLock { state -> Int? in
            if let committer = state.idle.popLast() { return committer }
            state.waiting.append(job)
            return nil
        }
        if let committer { assignments[committer].signal { $0 = job } }
    }

    /// Adds jobs before all waiting jobs. Committers call it.
    func addFirst(_ jobs: [Job]) {
        guard !jobs.isEmpty else { return }
        let given = state.withLock { state -> [(committer: Int, job: Job)] in
            let given = jobs.prefix(state.idle.count).map { (state.idle.removeLast(), $0) }
            state.putFirst(Array(jobs.dropFirst(given.count)))
            return given
        }
        for (committer, job) in given { assignments[committer].signal { $0 = job } }
    }

    /// Returns the next job of a committer; blocks until there is one.
    ///
    /// - Parameter again: the namespaces that the committer has just worked for and that have more work. They are
    ///   queued after all waiting jobs.
    func next(for committer: Int, again: [LiveNamespace] = []) -> Job {
        let job = state.withLock { state -> Job? in
            for namespace in again { state.waiting.append(.work(namespace)) }
            if let job = state.next() { return job }
            state.idle.append(committer)
            return nil
        }
        if let job { return job }
        return assignments[committer].wait { assignment in
            defer { assignment = nil }
            return assignment
        } ?? .stop
    }

    /// Takes the next waiting namespace, if there is one, for a committer that adds it to its shared transaction. Never
    /// blocks.
    func takeNamespace() -> LiveNamespace? { state.withLock { $0.nextNamespace() } }

    /// Whether a job waits for a committer.
    var isWaitedFor: Bool { state.withLock { $0.count > 0 } }

    /// The number of committers that wait for work.
    var idleCount: Int { state.withLock { $0.idle.count } }

    /// Ends all committers after the waiting jobs.
    func stop() { for _ in assignments { add(.stop) } }
}
