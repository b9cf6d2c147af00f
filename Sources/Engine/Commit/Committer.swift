import LogStore
import Rules
import Runtime
import Tree

/// One committer: a thread with a connection that takes namespaces with work, one at a time.
///
/// The way of a batch: evaluate against the snapshot, send, publish, answer. When the head had moved: read what others
/// wrote, evaluate again, send again; after that, and while others keep writing here, take the head's lock first. When
/// the connection was lost meanwhile: find out by the batch's id what became of it before anybody is answered.
final class Committer {
    private let core: EngineCore
    private let index: Int
    private var session: LogSession?
    private let stretches: StretchMeter

    init(_ core: EngineCore, index: Int) {
        self.core = core
        self.index = index
        stretches = core.stretches[index]
    }

    func run() {
        while true {
            switch core.takeJob() {
            case .work(let namespace):
                let isRead = work(namespace)
                if namespace.finishedTask(followsLog: isRead) { core.add(.work(namespace)) }
            case .load(let name): load(name)
            case .stop:
                session?.close()
                return
            }
        }
    }

    // MARK: Connection

    private func connected() throws(LogStoreError) -> LogSession {
        if let session, session.isOpen { return session }
        session = nil
        do throws(LogStoreError) {
            let new = try core.connect("committer \(index)")
            core.databaseAnswered()
            session = new
            return new
        } catch {
            core.databaseFailed(error)
            throw error
        }
    }

    /// This connection is gone. Whether the database is, the next one will tell: a session that dies late, after everybody
    /// else has found the database back, must not call it down again.
    private func dropConnection() {
        session?.close()
        session = nil
    }

    private static func engineError(_ error: LogStoreError) -> EngineError {
        switch error {
        case .corrupt(let what): .corrupt(what)
        case .unknownNamespace(let name): .unknownNamespace(name)
        default: .unavailable("\(error)")
        }
    }

    // MARK: Loading

    private func load(_ name: String) {
        let result: Result<LiveNamespace, EngineError>
        do throws(LogStoreError) {
            let session = try connected()
            if let record = try session.namespace(named: name, creating: core.settings.createsNamespaces) {
                let start = Clock.monotonicMilliseconds
                let (head, root, stored) = try session.loadTree(record.id)
                let snapshot = Snapshot(seq: head, root: root, rules: version(stored, of: name))
                core.logger.info(
                    "namespace loaded",
                    [
                        ("namespace", name), ("head", "\(head)"), ("rows", "\(root.rowCount)"),
                        ("milliseconds", "\(Clock.monotonicMilliseconds - start)"),
                    ])
                let core = core
                result = .success(
                    LiveNamespace(record, snapshot, core.settings) { core.add(.work($0)) })
            } else {
                result = .failure(.unknownNamespace(name))
            }
        } catch {
            if error.isConnectionLost { dropConnection() }
            result = .failure(Self.engineError(error))
        }
        core.namespaces.loaded(name, result)
        // What was committed while the tree was being read has been announced to nobody.
        if case .success(let namespace) = result { namespace.schedule() }
    }

    // MARK: Work

    /// False when the log could not be read: what the tail finds next is a reason to try again, not what it has found.
    private func work(_ namespace: LiveNamespace) -> Bool {
        let task = namespace.takeTask()
        guard core.health.isUp || answers() else {
            fail(task.batch, in: namespace, .unavailable(core.health.reason))
            return false
        }
        do throws(LogStoreError) {
            if task.remoteHead > namespace.snapshot.seq || (task.hasWaiters && task.batch.isEmpty) {
                _ = try follow(namespace, try connected(), to: task.remoteHead)
            }
        } catch {
            if error.isConnectionLost { dropConnection() }
            core.logger.error("the log can't be read", [("namespace", namespace.name), ("error", "\(error)")])
            fail(task.batch, in: namespace, Self.engineError(error))
            return false
        }
        if !task.batch.isEmpty { commit(task.batch, in: namespace, isContended: task.isContended) }
        return true
    }

    /// Whether this committer's connection works although the database was found to be down: a batch that is sent into a
    /// dead one has an unknown outcome, which nobody needs to be told who can be refused.
    private func answers() -> Bool {
        guard let session else { return false }
        do throws(LogStoreError) {
            _ = try session.heads([])
            return true
        } catch {
            dropConnection()
            return false
        }
    }

    /// A batch that was sent and whose answer was lost.
    private struct Lost {
        let batch: Batch
        let evaluation: Evaluation
    }

    private func commit(_ waiting: [WriteQueue.Waiting], in namespace: LiveNamespace, isContended: Bool) {
        var attempt = 0
        // Any of them may yet be written, until one is, or the head has moved past them all.
        var lostBatches: [Lost] = []
        while true {
            do throws(LogStoreError) {
                let session = try connected()
                if let lost = lostBatches.last {
                    if try session.findBatch(lost.batch) {
                        finish(waiting, lost.evaluation, in: namespace)
                        return
                    }
                    // A lost session may yet come to it: whatever is followed from now on is searched for its batch.
                    if complete(waiting, lostBatches, foundAmong: try follow(namespace, session)) { return }
                }
                let isLocked = isContended || attempt >= 2
                if isLocked {
                    let lock = try lockHead(namespace, session)
                    if complete(waiting, lostBatches, foundAmong: lock.batches) {
                        if lock.isHeld { session.unlockHead() }
                        return
                    }
                    guard lock.isHeld else {
                        attempt += 1
                        continue
                    }
                }
                let snapshot = namespace.snapshot
                var evaluation = Evaluation(
                    snapshot, timestamp: Clock.unixMilliseconds, keepsSteps: namespace.listenerCount > 0)
                stretches.measure("evaluation") { for item in waiting { evaluation.apply(item.write) } }
                guard !evaluation.records.isEmpty else {
                    // No transaction says that the refusals are of the newest state: somebody has to look.
                    if isLocked {
                        session.unlockHead()
                    } else if try !isAtHead(namespace, session) {
                        let followed = try follow(namespace, session)
                        if complete(waiting, lostBatches, foundAmong: followed) { return }
                        attempt += 1
                        continue
                    }
                    // Every order was denied: nothing is left to be done for the session.
                    for claim in evaluation.claims { try session.forgetSession(namespace.id, claim) }
                    complete(waiting, evaluation.outcomes)
                    return
                }
                let batch = Batch(
                    namespace: namespace.id, expectedHead: snapshot.seq, id: Batch.makeID(),
                    records: evaluation.records, rows: evaluation.rows.sink, rules: evaluation.newRules,
                    claims: evaluation.claims)
                let start = Clock.monotonicNanoseconds
                do throws(LogStoreError) {
                    switch try session.commit(batch, isLocked: isLocked) {
                    case .committed:
                        core.metrics.commitSeconds.observe(Double(Clock.monotonicNanoseconds - start) / 1e9)
                        namespace.noteContention(false)
                        finish(waiting, evaluation, in: namespace)
                        return
                    case .alreadyClaimed:
                        complete(waiting, [.committed(seq: snapshot.seq, changes: [])])
                        return
                    case .headMoved:
                        core.metrics.conflicts.add()
                        namespace.noteContention(true)
                        if complete(waiting, lostBatches, foundAmong: try follow(namespace, session)) { return }
                        attempt += 1
                        core.metrics.retries.add()
                    }
                } catch {
                    if error.isConnectionLost {
                        core.metrics.unknownCommits.add()
                        lostBatches.append(Lost(batch: batch, evaluation: evaluation))
                    }
                    throw error
                }
            } catch {
                if error.isConnectionLost {
                    dropConnection()
                } else {
                    core.logger.error("commit failed", [("namespace", namespace.name), ("error", "\(error)")])
                }
                let deadline = waiting.first?.deadline ?? 0
                // Only a batch that may have been written is worth waiting for.
                guard !lostBatches.isEmpty, Clock.monotonicMilliseconds < deadline, !core.stopsNow else {
                    fail(waiting, in: namespace, lostBatches.isEmpty ? Self.engineError(error) : .outcomeUnknown)
                    return
                }
                core.pause(milliseconds: 20 + Int64.random(in: 0...80))
                attempt += 1
            }
        }
    }

    /// Answers the writes with what a lost batch made of them, if the log turned out to hold one; true if so.
    private func complete(
        _ waiting: [WriteQueue.Waiting], _ lostBatches: [Lost], foundAmong batches: [[UInt8]]
    ) -> Bool {
        guard let lost = lostBatches.first(where: { batches.contains($0.batch.id) }) else { return false }
        complete(waiting, lost.evaluation.outcomes)
        return true
    }

    private func isAtHead(_ namespace: LiveNamespace, _ session: LogSession) throws(LogStoreError) -> Bool {
        let known = namespace.snapshot.seq
        return try session.heads([namespace.id]).first.map { $0.head == known } ?? true
    }

    /// Takes the head's lock and brings the snapshot up to it; `isHeld` is false when that must be tried again. Also tells
    /// which batches the snapshot was brought up by.
    private func lockHead(
        _ namespace: LiveNamespace, _ session: LogSession
    ) throws(LogStoreError) -> (isHeld: Bool, batches: [[UInt8]]) {
        let known = namespace.snapshot.seq
        let head = try session.lockHead(namespace.id, expectedHead: known)
        guard head != known else { return (true, []) }
        // Reading under the lock sees all of it; a tree that has to be loaded anew needs a transaction of its own.
        let entries = try session.read(namespace.id, after: known)
        let isPlain = entries.allSatisfy { !$0.entry.isBulk && $0.entry.operation != .rules }
        guard entries.first?.entry.seq == known + 1, isPlain else {
            session.unlockHead()
            return (false, try follow(namespace, session, to: head))
        }
        apply(entries.map(\.entry), to: namespace)
        let batches = entries.map(\.batchID)
        guard namespace.snapshot.seq == head else {
            session.unlockHead()
            return (false, batches)
        }
        return (true, batches)
    }

    // MARK: Following the log

    /// Reads and applies what is in the log after the snapshot. Returns the batches that it came from.
    ///
    /// - Parameter head: where the log is said to end. Where it doesn't, entries are pruned, or the database is an older
    ///   one than before; only the tree itself can tell then.
    private func follow(
        _ namespace: LiveNamespace, _ session: LogSession, to head: Int64? = nil
    ) throws(LogStoreError) -> [[UInt8]] {
        var batches: [[UInt8]] = []
        while true {
            let known = namespace.snapshot.seq
            let logged = try session.read(namespace.id, after: known)
            guard let first = logged.first else {
                if let head, head != known, batches.isEmpty { try reload(namespace, session) }
                return batches
            }
            batches.append(contentsOf: logged.map(\.batchID))
            guard first.entry.seq == known + 1 else {
                // The entries between are pruned.
                try reload(namespace, session)
                continue
            }
            var entries: [Entry] = []
            for item in logged {
                guard item.entry.isBulk || item.entry.operation == .rules else {
                    entries.append(item.entry)
                    continue
                }
                apply(entries, to: namespace)
                entries.removeAll()
                if item.entry.isBulk {
                    try applyBulk(item.entry, to: namespace, session)
                } else {
                    try applyRules(item.entry, to: namespace, session)
                }
            }
            apply(entries, to: namespace)
            core.metrics.followedEntries.add(logged.count)
        }
    }

    private func reload(_ namespace: LiveNamespace, _ session: LogSession) throws(LogStoreError) {
        let (head, root, stored) = try session.loadTree(namespace.id)
        namespace.reset(to: Snapshot(seq: head, root: root, rules: version(stored, of: namespace.name)))
    }

    private func apply(_ entries: [Entry], to namespace: LiveNamespace) {
        guard let last = entries.last else { return }
        var root = namespace.snapshot.root
        var steps: [Step] = []
        steps.reserveCapacity(entries.count)
        for entry in entries {
            let before = root
            for change in entry.changes { root = root.replacing(change.path, with: change.value) }
            steps.append(Step(entry: entry, before: before, after: root))
        }
        stretches.measure("listeners") {
            namespace.publish(steps, Snapshot(seq: last.seq, root: root, rules: namespace.snapshot.rules))
        }
    }

    private func applyRules(
        _ entry: Entry, to namespace: LiveNamespace, _ session: LogSession
    ) throws(LogStoreError) {
        let root = namespace.snapshot.root
        let rules = version(try session.rules(namespace.id, at: entry.seq), of: namespace.name)
        namespace.publish(
            [Step(entry: entry, before: root, after: root)], Snapshot(seq: entry.seq, root: root, rules: rules))
    }

    /// Compiles stored rules. Rules that don't compile, which only a newer gateway can have stored, let nobody in.
    private func version(_ stored: StoredRules?, of namespace: String) -> RulesVersion {
        guard let stored else { return core.settings.defaultRules }
        do throws(RulesError) {
            let compiled = stretches.measure("rules") {
                Result<RuleSet, RulesError> { () throws(RulesError) in try RuleSet(json: stored.source) }
            }
            return RulesVersion(seq: stored.seq, set: try compiled.get())
        } catch {
            core.logger.error(
                "the stored rules can't be used; nobody is let in",
                [("namespace", namespace), ("seq", "\(stored.seq)"), ("error", "\(error)")])
            return RulesVersion(seq: stored.seq, set: .denyAll)
        }
    }

    /// An import: its parts one by one; listeners see one change, at the import's path.
    private func applyBulk(
        _ entry: Entry, to namespace: LiveNamespace, _ session: LogSession
    ) throws(LogStoreError) {
        let before = namespace.snapshot.root
        var application = BulkApplication(entry.changes, to: before)
        repeat {
            try session.forEachPart(namespace.id, of: entry.seq) { (part) throws(LogStoreError) in
                application.take(part)
            }
        } while application.goesOn()
        let root = application.root
        let whole = Entry(
            seq: entry.seq, committedAt: entry.committedAt, operation: entry.operation, path: entry.path,
            changes: [Change(path: entry.path, value: root[entry.path])], isBulk: true)
        namespace.publish(
            [Step(entry: whole, before: before, after: root)],
            Snapshot(seq: entry.seq, root: root, rules: namespace.snapshot.rules))
    }

    // MARK: Answering

    private func finish(_ waiting: [WriteQueue.Waiting], _ evaluation: Evaluation, in namespace: LiveNamespace) {
        core.metrics.batches.add()
        core.metrics.batchSize.observe(Double(evaluation.records.count))
        core.metrics.writes.add(evaluation.records.count)
        // Data before acknowledgement: listeners are told before the writers are answered (rtdb-protocol 3.6).
        if evaluation.keepsSteps {
            stretches.measure("listeners") { namespace.publish(evaluation.steps, evaluation.snapshot) }
        } else if !namespace.publishUnheard(evaluation.snapshot) {
            // Somebody has begun to listen meanwhile. Evaluating again, at the same instant, gives the same steps.
            var again = Evaluation(namespace.snapshot, timestamp: evaluation.timestamp, keepsSteps: true)
            for item in waiting { again.apply(item.write) }
            stretches.measure("listeners") { namespace.publish(again.steps, evaluation.snapshot) }
        }
        complete(waiting, evaluation.outcomes)
    }

    private func fail(_ waiting: [WriteQueue.Waiting], in namespace: LiveNamespace, _ error: EngineError) {
        core.metrics.failedWrites.add(waiting.count)
        complete(waiting, Array(repeating: .failed(error), count: waiting.count))
    }

    private func complete(_ waiting: [WriteQueue.Waiting], _ outcomes: [WriteOutcome]) {
        // One call a sink, in the order of the writes.
        var bySink: [ObjectIdentifier: (sink: any WriteSink, outcomes: [(token: UInt64, outcome: WriteOutcome)])] = [:]
        for (item, outcome) in zip(waiting, outcomes) {
            switch outcome {
            case .preconditionFailed: core.metrics.failedPreconditions.add()
            case .denied: core.metrics.deniedWrites.add()
            default: break
            }
            bySink[ObjectIdentifier(item.sink), default: (item.sink, [])].outcomes.append((item.token, outcome))
        }
        for (sink, outcomes) in bySink.values { sink.complete(outcomes) }
    }
}
