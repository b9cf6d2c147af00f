import Runtime
import Tree

/// The writes of a namespace that wait for the next batch. Bounded: see `EngineSettings`.
/// A value; its owner locks.
struct WriteQueue {
    struct Waiting: Sendable {
        let write: Write
        let sink: any WriteSink
        let token: UInt64
        /// Monotonic milliseconds after which the write fails instead of waiting for the database.
        let deadline: Milliseconds
        /// Set for a large write whose rows are written and which remains to be committed.
        var large: LargeWrite?

        /// Whether it has to be the only write of its SQL transaction.
        var goesAlone: Bool { large != nil || write.goesAlone }
    }

    private var waiting: [Waiting] = []
    private var first = 0
    private var byteCount = 0

    var count: Int { waiting.count - first }
    var isEmpty: Bool { count == 0 }
    /// Whether the next write has to be the only one of its transaction.
    var isNextAlone: Bool { !isEmpty && waiting[first].goesAlone }

    /// Appends a write. Returns false if the queue is full.
    mutating func append(_ item: Waiting, _ settings: EngineSettings) -> Bool {
        guard count < settings.maxWaitingWrites,
            isEmpty || byteCount + item.write.byteCount <= settings.maxWaitingBytes
        else { return false }
        appendAnyway(item)
        return true
    }

    mutating func appendAnyway(_ item: Waiting) {
        waiting.append(item)
        byteCount += item.write.byteCount
    }

    /// Puts the writes back that were taken last; they come first again.
    mutating func putBack(_ items: [Waiting]) {
        waiting.replaceSubrange(0..<first, with: items)
        first = 0
        for item in items { byteCount += item.write.byteCount }
    }

    /// Takes the writes for one batch, at least one if there is any.
    ///
    /// - Parameter most: approximate number of bytes of values; taken from the settings if nil.
    mutating func takeBatch(_ settings: EngineSettings, bytes most: Int? = nil) -> [Waiting] {
        let most = most ?? settings.maxBatchBytes
        var bytes = 0
        var fence: [UInt8]?
        var end = first
        while end < waiting.count, end - first < settings.maxBatchWrites {
            if end > first, waiting[end].goesAlone || waiting[first].goesAlone { break }
            // One transaction can continue the messages of one fence only.
            if let mark = waiting[end].write.upstream {
                if let fence, fence != mark.fence { break }
                fence = mark.fence
            }
            bytes += waiting[end].write.byteCount
            if end > first, bytes > most { break }
            end += 1
        }
        let batch = Array(waiting[first..<end])
        for item in batch { byteCount -= item.write.byteCount }
        first = end
        if first == waiting.count {
            waiting.removeAll(keepingCapacity: waiting.capacity < 4_096)
            first = 0
        } else if first > 4_096 {
            waiting.removeFirst(first)
            first = 0
        }
        return batch
    }

    /// Whether writes are waiting, and all of them together are small enough for a shared transaction.
    ///
    /// - Parameter root: the tree to which the writes apply. A removal contains no rows, but may touch many.
    func fits(rows: Int, bytes: Int, _ settings: EngineSettings, _ root: Node) -> Bool {
        guard !isEmpty, count <= rows, byteCount <= bytes else { return false }
        let most = min(settings.sharedTransactionRows, settings.largeWriteRows)
        var brought = 0
        for item in waiting[first...] {
            brought += item.write.rowCount
            guard !item.goesAlone, item.write.upstream == nil, brought <= rows,
                !item.write.isLarge(bytes: settings.largeWriteBytes, rows: most, root)
            else { return false }
        }
        return true
    }

    mutating func takeAll() -> [Waiting] {
        defer {
            waiting.removeAll()
            first = 0
            byteCount = 0
        }
        return Array(waiting[first...])
    }
}

/// Passes the outcomes to the writers.
struct WriteAnswers {
    private let metrics: EngineMetrics

    init(_ metrics: EngineMetrics) { self.metrics = metrics }

    /// Answers each write with its outcome: one call per sink, in the order of the writes.
    func complete(_ waiting: [WriteQueue.Waiting], _ outcomes: [WriteOutcome]) {
        if let sink = waiting.first?.sink, waiting.allSatisfy({ $0.sink === sink }) {
            var answered: [(token: UInt64, outcome: WriteOutcome)] = []
            answered.reserveCapacity(waiting.count)
            for (item, outcome) in zip(waiting, outcomes) {
                count(outcome)
                answered.append((item.token, outcome))
            }
            return sink.complete(answered)
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

    /// Answers all writes with an error.
    func fail(_ waiting: [WriteQueue.Waiting], _ error: EngineError) {
        // The large writer handles the failure.
        if let large = waiting.first?.large { return large.finish(.failed(error)) }
        metrics.failedWrites.add(waiting.count)
        complete(waiting, Array(repeating: .failed(error), count: waiting.count))
    }
}
