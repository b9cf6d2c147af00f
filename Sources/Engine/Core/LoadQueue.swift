import Runtime

/// The names of namespaces that wait to be loaded, with a limit on their number, and the loaders' share of large ones.
/// Any thread.
///
/// A loader may find that a namespace is large while it reads it. As long as all loaders but one are busy with large
/// namespaces, a further large one is postponed, so that small namespaces never wait for large ones only.
final class LoadQueue: Sendable {
    struct Job: Sendable, Equatable {
        let name: String
        /// Whether an earlier attempt found the namespace to be large.
        var isLarge = false
    }

    private struct State: Sendable {
        var small: [String] = []
        var nextSmall = 0
        var large: [String] = []
        /// The number of loaders that are busy with large namespaces.
        var largeRunning = 0
        /// Whether the last job was large: a single loader alternates between small and large ones.
        var tookLarge = false
        var isStopped = false

        var count: Int { small.count - nextSmall + large.count }

        mutating func takeSmall() -> String? {
            guard nextSmall < small.count else { return nil }
            defer {
                nextSmall += 1
                if nextSmall > 1_000, nextSmall * 2 > small.count {
                    small.removeFirst(nextSmall)
                    nextSmall = 0
                }
            }
            return small[nextSmall]
        }
    }

    private let state = Condition(State())
    private let maxLarge: Int
    private let maxWaiting: Int

    /// - Parameters:
    ///   - loaders: the number of threads that take jobs.
    ///   - maxWaiting: maximum number of waiting names.
    init(loaders: Int, maxWaiting: Int) {
        maxLarge = max(1, loaders - 1)
        self.maxWaiting = maxWaiting
    }

    /// The number of waiting names.
    var count: Int { state.withLock { $0.count } }

    /// Adds a name. Returns the reason if it was rejected, otherwise nil.
    func add(_ name: String) -> EngineError? {
        state.signal { state -> EngineError? in
            if state.isStopped { return .stopping }
            guard state.count < maxWaiting else { return .overloaded }
            state.small.append(name)
            return nil
        }
    }

    /// Waits for the next name to load; returns nil after `milliseconds`, or when the loaders have to end. The caller
    /// must call `finished` for each job.
    func next(milliseconds: Milliseconds?) -> Job? {
        state.wait(milliseconds: milliseconds) { state -> Job?? in
            if state.isStopped { return .some(nil) }
            let mayTakeLarge = state.largeRunning < maxLarge && !state.large.isEmpty
            if mayTakeLarge, !state.tookLarge || state.nextSmall == state.small.count {
                state.largeRunning += 1
                state.tookLarge = true
                return Job(name: state.large.removeFirst(), isLarge: true)
            }
            guard let name = state.takeSmall() else { return nil }
            state.tookLarge = false
            return Job(name: name)
        } ?? nil
    }

    /// Marks the job as large. Returns false if it must wait for other large jobs; its loader then calls `postpone`.
    func becomesLarge(_ job: inout Job) -> Bool {
        guard !job.isLarge else { return true }
        job.isLarge = state.withLock { state in
            guard state.largeRunning < maxLarge else { return false }
            state.largeRunning += 1
            return true
        }
        return job.isLarge
    }

    /// Queues a job again that must wait for other large jobs. Returns false if the queue is stopped.
    func postpone(_ job: Job) -> Bool {
        state.broadcast { state in
            if state.isStopped { return false }
            state.large.append(job.name)
            return true
        }
    }

    /// Queues a job again after the waiting ones. Returns false if the queue is stopped.
    func putBack(_ job: Job) -> Bool {
        state.broadcast { state in
            if state.isStopped { return false }
            if job.isLarge { state.large.append(job.name) } else { state.small.append(job.name) }
            return true
        }
    }

    /// Ends a job, with or without success.
    func finished(_ job: Job) {
        guard job.isLarge else { return }
        state.broadcast { $0.largeRunning -= 1 }
    }

    var isStopped: Bool { state.withLock { $0.isStopped } }

    /// Stops the queue and returns the names that were waiting.
    func stop() -> [String] {
        state.broadcast { state in
            state.isStopped = true
            defer {
                state.small = []
                state.nextSmall = 0
                state.large = []
            }
            return state.small[state.nextSmall...] + state.large
        }
    }
}
