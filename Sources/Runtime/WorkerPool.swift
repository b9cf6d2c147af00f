/// A few threads that run jobs in the order of arrival: work too long for an event loop, such as encoding a large tree.
/// The queue is bounded; `submit` rejects jobs beyond the bound.
public final class WorkerPool: Sendable {
    fileprivate struct State {
        /// Nil for jobs that were taken, so that their captures are released.
        var jobs: [(@Sendable () -> Void)?] = []
        var next = 0
        var isStopping = false
    }
    private let state = Condition(State())
    private let threads: [Thread]
    private let capacity: Int

    public init(name: String, threads count: Int, capacity: Int = 4096) {
        self.capacity = capacity
        let state = self.state
        threads = (0..<max(1, count)).map { index in
            Thread(name: "\(name)-\(index)") {
                while let job = state.wait(until: { $0.take() }) {
                    switch job {
                    case .run(let body): body()
                    case .stop: return
                    }
                }
            }
        }
    }

    /// Queues a job. Returns false if the queue is full or the pool is stopping: the job will not run.
    public func submit(_ job: @escaping @Sendable () -> Void) -> Bool {
        state.signal { state in
            guard !state.isStopping, state.jobs.count - state.next < capacity else { return false }
            state.jobs.append(job)
            return true
        }
    }

    /// Waits for the running jobs and ends the threads. Queued jobs do not run.
    public func stop() {
        state.broadcast { state in
            state.isStopping = true
            state.jobs.removeAll()
            state.next = 0
        }
        for thread in threads { thread.join() }
    }
}

private enum Job {
    case run(@Sendable () -> Void)
    case stop
}

extension WorkerPool.State {
    fileprivate mutating func take() -> Job? {
        guard next < jobs.count else { return isStopping ? .stop : nil }
        let job = jobs[next]
        jobs[next] = nil
        next += 1
        if next == jobs.count {
            jobs.removeAll(keepingCapacity: true)
            next = 0
        } else if next > 1_024 {
            jobs.removeFirst(next)
            next = 0
        }
        return job.map { .run($0) }
    }
}
