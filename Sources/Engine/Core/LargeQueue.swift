import Runtime

/// The large writes that wait for the large writer. The queue is limited by number (`MemoryBudget` limits their
/// memory), because a write that removes many rows is also large but takes few bytes. Any thread.
final class LargeQueue: Sendable {
    struct Job: Sendable {
        let namespace: LiveNamespace
        let item: WriteQueue.Waiting
    }

    private struct State: Sendable {
        var jobs: [Job] = []
        var isWorking = false
        var stops = false
    }

    private let state = Condition(State())

    private static let maxWaiting = 256

    func add(_ item: WriteQueue.Waiting, in namespace: LiveNamespace) {
        let refusal = state.broadcast { state -> EngineError? in
            if state.stops { return .stopping }
            guard state.jobs.count < Self.maxWaiting else { return .overloaded }
            state.jobs.append(Job(namespace: namespace, item: item))
            return nil
        }
        if let refusal { item.sink.complete([(item.token, .failed(refusal))]) }
    }

    /// True if no write waits and none is being prepared.
    var isIdle: Bool { state.withLock { $0.jobs.isEmpty && !$0.isWorking } }

    /// Waits for the next write; returns nil when the engine stops. Also marks the previous write as finished.
    func next() -> Job? {
        state.wait { state -> Job?? in
            state.isWorking = false
            if state.stops { return .some(nil) }
            guard !state.jobs.isEmpty else { return nil }
            state.isWorking = true
            return .some(state.jobs.removeFirst())
        } ?? nil
    }

    func takeAll() -> [Job] {
        state.withLock { state in
            defer { state.jobs.removeAll() }
            return state.jobs
        }
    }

    func stop() { state.broadcast { $0.stops = true } }
}
