import LogStore
import Runtime
import Tree

/// One committer: a thread with a connection that takes namespaces with work, one at a time.
///
/// The way of a batch: evaluate against the snapshot, send, publish, answer. When the head had moved: read what others
/// wrote, evaluate again, send again; after that, and while others keep writing here, take the head's lock first. When
/// the connection was lost meanwhile: find out by the batch's id what became of it before anybody is answered.
final class Committer {
    let core: EngineCore
    let index: Int
    private var connection: LogConnection?
    let stretches: StretchMeter
    let follower: NamespaceFollower
    private let loader: NamespaceLoader

    init(_ core: EngineCore, index: Int) {
        self.core = core
        self.index = index
        stretches = core.stretches[index]
        follower = NamespaceFollower(core, stretches)
        loader = NamespaceLoader(core, stretches)
    }

    func run() {
        while true {
            switch core.takeJob() {
            case .work(let namespace):
                let isRead = work(namespace)
                if namespace.finishedTask(followsLog: isRead) { core.add(.work(namespace)) }
            case .load(let name): load(name)
            case .stop:
                connection?.close()
                return
            }
        }
    }

    // MARK: Connection

    func connected(by deadline: Int64? = nil) throws(LogStoreError) -> LogConnection {
        if let connection, connection.isOpen { return connection }
        connection = nil
        do throws(LogStoreError) {
            let new = try core.connect("\(BackendName.committerShort) \(index)", by: deadline)
            // Nobody is told that it is back before it has been compared with what is here.
            if !core.health.isUp { try core.look(new, isNew: true) }
            connection = new
            return new
        } catch {
            core.databaseFailed(error)
            throw error
        }
    }

    /// This connection is gone. Whether the database is, the next one will tell: a session that dies late, after everybody
    /// else has found the database back, must not call it down again.
    func dropConnection() {
        connection?.close()
        connection = nil
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
        var result = tryToLoad(name)
        // The connection may be one of before an outage: that says nothing about the database.
        if connection == nil, case .failure(.unavailable) = result { result = tryToLoad(name) }
        core.namespaces.loaded(name, result)
        // What was committed while the tree was being read has been announced to nobody.
        if case .success(let namespace) = result { namespace.schedule() }
    }

    private func tryToLoad(_ name: String) -> Result<LiveNamespace, EngineError> {
        do throws(LogStoreError) {
            let connection = try connected()
            guard let namespace = try loader.load(name, connection) else { return .failure(.unknownNamespace(name)) }
            return .success(namespace)
        } catch {
            if error.isConnectionLost { dropConnection() }
            return .failure(Self.engineError(error))
        }
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
            if task.remoteHead > namespace.snapshot.seq || task.isSuspect || (task.hasWaiters && task.batch.isEmpty) {
                try catchUp(namespace, to: task.remoteHead)
            }
        } catch {
            core.logger.error("the log can't be read", [("namespace", namespace.name), ("error", "\(error)")])
            fail(task.batch, in: namespace, Self.engineError(error))
            return false
        }
        if let large = task.batch.first?.large {
            commitLarge(large, in: namespace)
        } else if !task.batch.isEmpty {
            commit(task.batch, in: namespace, isContended: task.isContended)
        }
        return true
    }

    private func catchUp(_ namespace: LiveNamespace, to head: Int64) throws(LogStoreError) {
        var hasReconnected = false
        while true {
            do throws(LogStoreError) {
                _ = try follower.follow(namespace, try connected(), to: head)
                return
            } catch {
                guard error.isConnectionLost else { throw error }
                dropConnection()
                // The connection may be one of before an outage that is over.
                if hasReconnected || !core.health.isUp { throw error }
                hasReconnected = true
            }
        }
    }

    /// Whether this committer's connection works although the database was found to be down: a batch that is sent into a
    /// dead one has an unknown outcome, which nobody needs to be told who can be refused.
    private func answers() -> Bool {
        guard let connection else { return false }
        do throws(LogStoreError) {
            _ = try connection.heads([])
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
        var hasReconnected = false
        while true {
            do throws(LogStoreError) {
                let connection = try connected(by: waiting.first?.deadline)
                core.blockers.enter(index, pid: connection.backendPID)
                defer { core.blockers.leave(index) }
                if let lost = lostBatches.last {
                    if try connection.findBatch(lost.batch) {
                        finish(waiting, lost.evaluation, in: namespace)
                        return
                    }
                    // A lost session may yet come to it: whatever is followed from now on is searched for its batch.
                    if complete(waiting, lostBatches, foundAmong: try follower.follow(namespace, connection)) { return }
                }
                let isLocked = isContended || attempt >= 2
                if isLocked {
                    let lock = try follower.lockHead(namespace, connection)
                    if complete(waiting, lostBatches, foundAmong: lock.batches) {
                        if lock.isHeld { connection.unlockHead() }
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
                        connection.unlockHead()
                    } else if try !follower.isAtHead(namespace, connection) {
                        let followed = try follower.follow(namespace, connection)
                        if complete(waiting, lostBatches, foundAmong: followed) { return }
                        attempt += 1
                        continue
                    }
                    // Every order was denied: nothing is left to be done for the session.
                    for claim in evaluation.claims { try connection.forgetSession(namespace.id, claim) }
                    complete(waiting, evaluation.outcomes)
                    return
                }
                let batch = Batch(
                    namespace: namespace.id, expectedHead: snapshot.seq, expectedBatch: snapshot.batch,
                    id: evaluation.batchID, records: evaluation.records, rows: evaluation.rows.sink,
                    rules: evaluation.newRules,
                    claims: evaluation.claims)
                let start = Clock.monotonicNanoseconds
                do throws(LogStoreError) {
                    switch try connection.commit(batch, isLocked: isLocked) {
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
                        if complete(waiting, lostBatches, foundAmong: try follower.follow(namespace, connection)) {
                            return
                        }
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
                // The connection may be one of before an outage that is over: nothing was sent yet.
                let isOld = error.isConnectionLost && !hasReconnected && core.health.isUp
                hasReconnected = hasReconnected || isOld
                // Else only a batch that may have been written is worth waiting for, and one that somebody's lock kept out.
                guard !lostBatches.isEmpty || error.isLockConflict || isOld, Clock.monotonicMilliseconds < deadline,
                    !core.stopsNow
                else {
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

    // MARK: Answering

    private func finish(_ waiting: [WriteQueue.Waiting], _ evaluation: Evaluation, in namespace: LiveNamespace) {
        core.metrics.batches.add()
        core.metrics.batchSize.observe(Double(evaluation.records.count))
        core.metrics.writes.add(evaluation.records.count)
        core.recent.note(namespace.id, evaluation.snapshot)
        // Data before acknowledgement: listeners are told before the writers are answered (rtdb-protocol 3.6).
        if evaluation.keepsSteps {
            stretches.measure("listeners") { namespace.publish(evaluation.steps, evaluation.snapshot) }
        } else if !namespace.publishUnheard(evaluation.snapshot) {
            // Somebody has begun to listen meanwhile. Evaluating again, at the same instant, gives the same steps.
            var again = Evaluation(
                namespace.snapshot, timestamp: evaluation.timestamp, keepsSteps: true, batchID: evaluation.batchID)
            for item in waiting { again.apply(item.write) }
            stretches.measure("listeners") { namespace.publish(again.steps, evaluation.snapshot) }
        }
        complete(waiting, evaluation.outcomes)
    }

    private func fail(_ waiting: [WriteQueue.Waiting], in namespace: LiveNamespace, _ error: EngineError) {
        // Its writer has the rest to do.
        if let large = waiting.first?.large { return large.finish(.failed(error)) }
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
