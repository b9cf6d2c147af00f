import LogStore
import Runtime
import Tree

/// Prepares large writes separately from all others: evaluates each on a snapshot and writes its rows in a transaction
/// of its own, which takes no lock that small writes elsewhere need. Then a committer makes it the next entry (see
/// `LargeCommit`), unless an entry in between touches the same paths. In that case the write is prepared again, and
/// after several attempts it is queued among the other writes. One thread, one connection; one large write at a time.
final class LargeWriter: Sendable {
    private static let maxAttempts = 4
    private static let partBytes = 4 << 20

    private let core: EngineCore

    init(_ core: EngineCore) { self.core = core }

    func run() {
        var connection: LogConnection?
        while let job = core.large.next() { process(job, &connection) }
        connection?.close()
        for job in core.large.takeAll() { fail(job.item, .stopping) }
    }

    private func process(_ job: LargeQueue.Job, _ connection: inout LogConnection?) {
        core.metrics.largeWrites.add()
        var attempt = 0
        while attempt < Self.maxAttempts, !core.stopsNow {
            if attempt > 0 { core.metrics.largeWriteRetries.add() }
            attempt += 1
            guard core.health.isUp else { return fail(job.item, .unavailable(core.health.reason)) }
            do throws(LogStoreError) {
                if connection?.isOpen != true { connection = try core.connect(BackendName.largeWriteShort) }
                guard let connection, try !isDone(job, connection), let write = try prepare(job, connection) else {
                    break
                }
                job.namespace.submit(write)
                switch write.wait() {
                case .done: return
                case .failed(let error): return fail(job.item, error)
                case .again: connection.unlockHead()
                case .connectionFailed(let error): throw error
                }
            } catch {
                connection?.unlockHead()
                if error.isConnectionLost {
                    connection?.close()
                    connection = nil
                }
                core.logger.debug("a large write is prepared again", [("error", "\(error)")])
                core.pause(milliseconds: 20 + Int64.random(in: 0...100))
            }
        }
        // The write is queued like a small one: either it is refused there, or its paths change too often to prepare
        // it.
        connection?.unlockHead()
        job.namespace.enqueue(job.item)
    }

    private func fail(_ item: WriteQueue.Waiting, _ error: EngineError) {
        core.metrics.failedWrites.add()
        item.sink.complete([(item.token, .failed(error))])
    }

    /// Whether the outcome of a write of the same name is known. The write is then queued and answered like a small one.
    private func isDone(_ job: LargeQueue.Job, _ connection: LogConnection) throws(LogStoreError) -> Bool {
        guard let name = job.item.write.name else { return false }
        let done = try connection.doneWrites(job.namespace.id, [name])
        // Otherwise the committer would evaluate the whole write to find that out.
        job.namespace.learn(done)
        return done.fate(of: name) != nil
    }

    /// Evaluates a write and writes its rows. Returns nil if it would be refused, because only the newest tree permits
    /// a refusal.
    private func prepare(_ job: LargeQueue.Job, _ connection: LogConnection) throws(LogStoreError) -> LargeWrite? {
        let namespace = job.namespace
        let base = namespace.snapshot
        var evaluation = Evaluation(
            base, timestamp: Clock.unixMilliseconds, keepsSteps: true,
            messages: UpstreamMessages(following: namespace.following))
        evaluation.apply(job.item.write)
        guard case .committed(_, let reported)? = evaluation.outcomes.first, let record = evaluation.records.first,
            let step = evaluation.steps.first
        else { return nil }
        let number = try connection.beginLarge(namespace.id, head: base.seq)
        let parts = try stageParts(step.entry.changes, record, in: namespace, large: number, connection)
        try connection.stageRows(namespace.id, large: number, evaluation.rows.sink)
        let write = LargeWrite(
            job.item, connection, number: number, parts: parts, base: base, root: step.after, record: record,
            changes: step.entry.changes, reported: reported)
        try catchUp(write, in: namespace)
        return write
    }

    /// Writes the entry's changes, in parts of bounded size if there are several, and returns the number of parts.
    private func stageParts(
        _ changes: [Change], _ record: Batch.Record, in namespace: LiveNamespace, large number: Int64,
        _ connection: LogConnection
    ) throws(LogStoreError) -> Int32 {
        if changes.count == 1 || record.changes.count <= Self.partBytes {
            try connection.stagePart(namespace.id, large: number, part: 0, changes: record.changes)
            return 1
        }
        var parts: Int32 = 0
        var bytes = 0
        var part: [Change] = []
        func flush() throws(LogStoreError) {
            guard !part.isEmpty else { return }
            try connection.stagePart(namespace.id, large: number, part: parts, changes: ChangeCodec.encode(part))
            parts += 1
            bytes = 0
            part.removeAll(keepingCapacity: true)
        }
        for change in changes {
            part.append(change)
            bytes += 64 + change.value.rowCount * 64
            if bytes > Self.partBytes { try flush() }
        }
        try flush()
        return parts
    }

    /// Applies the entries that were written meanwhile, so that little remains to be done under the head's lock. A
    /// conflict is found again there.
    private func catchUp(_ write: LargeWrite, in namespace: LiveNamespace) throws(LogStoreError) {
        // The position includes the batch, because the database may have another history than the evaluated tree.
        var log = LogFollower(namespace.id, at: write.tree.position) { $0.checksHistory = true }
        while case .entries(let page) = try log.next(on: write.connection), write.tree.take(page) {}
    }
}
