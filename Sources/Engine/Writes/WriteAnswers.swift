import Runtime

/// Tells the writers what became of their writes.
struct WriteAnswers {
    private let metrics: EngineMetrics

    init(_ metrics: EngineMetrics) { self.metrics = metrics }

    /// Answers each write with its outcome: one call a sink, in the order of the writes.
    func complete(_ waiting: [WriteQueue.Waiting], _ outcomes: [WriteOutcome]) {
        if let sink = waiting.first?.sink, waiting.allSatisfy({ $0.sink === sink }) {
            var told: [(token: UInt64, outcome: WriteOutcome)] = []
            told.reserveCapacity(waiting.count)
            for (item, outcome) in zip(waiting, outcomes) {
                count(outcome)
                told.append((item.token, outcome))
            }
            return sink.complete(told)
        }
        var bySink: [ObjectIdentifier: (sink: any WriteSink, outcomes: [(token: UInt64, outcome: WriteOutcome)])] = [:]
        for (item, outcome) in zip(waiting, outcomes) {
            count(outcome)
            bySink[ObjectIdentifier(item.sink), default: (item.sink, [])].outcomes.append((item.token, outcome))
        }
        for (sink, outcomes) in bySink.values { sink.complete(outcomes) }
    }

    private func count(_ outcome: WriteOutcome) {
        switch outcome {
        case .preconditionFailed: metrics.failedPreconditions.add()
        case .denied: metrics.deniedWrites.add()
        default: break
        }
    }

    /// Answers all of them with an error.
    func fail(_ waiting: [WriteQueue.Waiting], _ error: EngineError) {
        // The large writer has the rest to do.
        if let large = waiting.first?.large { return large.finish(.failed(error)) }
        metrics.failedWrites.add(waiting.count)
        complete(waiting, Array(repeating: .failed(error), count: waiting.count))
    }
}
