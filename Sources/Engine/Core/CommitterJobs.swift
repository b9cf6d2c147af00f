import Runtime
import Synchronization

/// The namespaces that wait for a committer, in the order in which they came, and the committers that wait for work.
///
/// The committer that was the last to become idle is the first to get work: where few are needed, the same few work, and what they and their servers have at
/// hand of a namespace is still there.
final class CommitterJobs: Sendable {
    /// A piece of work for one committer.
    enum Job: Sendable {
        case work(LiveNamespace)
        /// A batch that another committer has begun with.
        indirect case goOn(BatchProgress)
        case stop
    }

    private struct State: Sendable {
        /// Nil where it was taken.
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

        /// The next one, if it is a namespace of which nothing has been begun.
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
    /// Where each committer waits.
    private let desks: [Condition<Job?>]

    init(committers: Int) { desks = (0..<committers).map { _ in Condition(nil) } }

    /// Work for whoever is free first. Never blocks.
    func add(_ job: Job) {
        let committer = state.withLock { state -> Int? in
            if let committer = state.idle.popLast() { return committer }
            state.waiting.append(job)
            return nil
        }
        if let committer { desks[committer].signal { $0 = job } }
    }

    /// Work that comes before all that waits. For committers that work themselves.
    func addFirst(_ jobs: [Job]) {
        guard !jobs.isEmpty else { return }
        let given = state.withLock { state -> [(committer: Int, job: Job)] in
            let given = jobs.prefix(state.idle.count).map { (state.idle.removeLast(), $0) }
            state.putFirst(Array(jobs.dropFirst(given.count)))
            return given
        }
        for (committer, job) in given { desks[committer].signal { $0 = job } }
    }

    /// The next work of a committer; waits for it.
    ///
    /// - Parameter again: the namespaces that it has just worked for, if there is more to do for them: behind all that wait already.
    func next(for committer: Int, again: [LiveNamespace] = []) -> Job {
        let job = state.withLock { state -> Job? in
            for namespace in again { state.waiting.append(.work(namespace)) }
            if let job = state.next() { return job }
            state.idle.append(committer)
            return nil
        }
        if let job { return job }
        return desks[committer].wait { desk in
            defer { desk = nil }
            return desk
        } ?? .stop
    }

    /// The namespace that waits next, if one waits, for a committer that does its work together with what it has. Never blocks.
    func takeNamespace() -> LiveNamespace? { state.withLock { $0.nextNamespace() } }

    /// Whether work waits for a committer.
    var isWaitedFor: Bool { state.withLock { $0.count > 0 } }

    /// How many committers wait for work.
    var idleCount: Int { state.withLock { $0.idle.count } }

    /// Ends all committers, behind the work that waits.
    func stop() { for _ in desks { add(.stop) } }
}
