import Runtime

/// The names of namespaces that wait to be loaded, and who loads. Bounded by number. Any thread.
///
/// A namespace may turn out to be large while it is read. As long as all loaders but one are busy with large ones, another that
/// turns out to be large is put back: so small ones never wait behind large ones only.
final class LoadQueue: Sendable {
    struct Job: Sendable, Equatable {
        let name: String
        /// It has turned out to be large before.
        var isLarge = false
    }

    private struct State: Sendable {
        var small: [String] = []
        var nextSmall = 0
        var large: [String] = []
        /// Loaders that are busy with large ones.
        var largeRunning = 0
        /// With one loader both kinds take turns.
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
    ///   - loaders: how many threads take from it.
    ///   - maxWaiting: the most names that wait.
    init(loaders: Int, maxWaiting: Int) {
        maxLarge = max(1, loaders - 1)
        self.maxWaiting = maxWaiting
    }

    /// How many wait.
    var count: Int { state.withLock { $0.count } }

    /// Adds a name; what it is refused for, if it is.
    func add(_ name: String) -> EngineError? {
        state.signal { state -> EngineError? in
            if state.isStopped { return .stopping }
            guard state.count < maxWaiting else { return .overloaded }
            state.small.append(name)
            return nil
        }
    }

    /// The next name to load; nil after `milliseconds`, or when the loaders are to end. `finished` is due for each.
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

    /// The job has turned out to be large. False where it has to wait for others: then its loader gives it back.
    func becomesLarge(_ job: inout Job) -> Bool {
        guard !job.isLarge else { return true }
        job.isLarge = state.withLock { state in
            guard state.largeRunning < maxLarge else { return false }
            state.largeRunning += 1
            return true
        }
        return job.isLarge
    }

    /// Puts back what has to wait for other large ones. False when nothing is loaded any more.
    func postpone(_ job: Job) -> Bool {
        state.broadcast { state in
            if state.isStopped { return false }
            state.large.append(job.name)
            return true
        }
    }

    /// Puts a job back behind the others that wait. False when nothing is loaded any more.
    func putBack(_ job: Job) -> Bool {
        state.broadcast { state in
            if state.isStopped { return false }
            if job.isLarge { state.large.append(job.name) } else { state.small.append(job.name) }
            return true
        }
    }

    /// The job is done, whatever came of it.
    func finished(_ job: Job) {
        guard job.isLarge else { return }
        state.broadcast { $0.largeRunning -= 1 }
    }

    var isStopped: Bool { state.withLock { $0.isStopped } }

    /// Nothing is loaded any more: those that waited.
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
