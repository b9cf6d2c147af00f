import LogStore
import Runtime
import Tree

/// Commits one batch: executes the effects of its `CommitMachine` on the committer's thread and connection.
struct BatchCommit {
    private typealias Evaluated = BatchProgress.Evaluated

    let context: CommitterContext
    var progress: BatchProgress
    private(set) var connection: LogConnection?

    init(_ progress: BatchProgress, _ context: CommitterContext) {
        self.context = context
        self.progress = progress
    }

    private var namespace: LiveNamespace { progress.namespace }
    private var waiting: [WriteQueue.Waiting] { progress.waiting }

    /// Commits the batch and returns when the writes are answered.
    mutating func run() { resume { _ in true } }

    /// Executes the next effects for as long as `isMeant` accepts them.
    mutating func resume(while isMeant: (CommitMachine.Effect) -> Bool) {
        if let connection { context.core.blockers.enter(context.index, pid: connection.backendPID) }
        defer { context.core.blockers.leave(context.index) }
        while let effect = progress.next, isMeant(effect) {
            let event = outcome(of: effect)
            progress.next = event.map { progress.machine.handle($0) }
        }
    }

    /// Accepts the result of the last effect from the caller that executed it.
    mutating func take(_ event: CommitMachine.Event, committedAt: Milliseconds? = nil, error: LogStoreError? = nil) {
        progress.committedAt = committedAt
        if let error { note(error) }
        progress.next = progress.machine.handle(event)
    }

    /// Accepts the database's outcome of the batch from the caller that sent it.
    mutating func take(_ outcome: LogConnection.CommitOutcome, since start: UInt64) {
        guard let connection else { preconditionFailure("nothing was sent") }
        let event: CommitMachine.Event
        do throws(LogStoreError) {
            event = try self.event(of: outcome, connection, since: start)
        } catch {
            event = failed(error)
        }
        progress.next = progress.machine.handle(event)
    }

    private mutating func failed(_ error: LogStoreError) -> CommitMachine.Event {
        note(error)
        endIfGone(error)
        context.core.blockers.leave(context.index)
        return .failed(CommitMachine.Failure(error), circumstances)
    }

    /// Finds the reason that the database no longer has the namespace, logs it, and ends the namespace here.
    private func endIfGone(_ error: LogStoreError) {
        guard case .unknownNamespace = error, !namespace.hasEnded, let connection else { return }
        // The commit has failed either way.
        try? context.follower.reload(namespace, connection)
    }

    /// Of a namespace that has ended here nothing can be found out any more.
    private var circumstances: CommitMachine.Circumstances {
        let now = context.circumstances
        return CommitMachine.Circumstances(
            now: now.now, isDatabaseUp: now.isDatabaseUp, isStopping: now.isStopping || namespace.hasEnded)
    }

    private mutating func note(_ error: LogStoreError) {
        progress.error = error
        guard error.isLocalCommit, !progress.wasLocal else { return }
        progress.wasLocal = true
        context.core.logger.warning(
            "the database has committed a batch without its synchronous standby; the outcome is unknown "
                + "until a standby has a later commit", [("namespace", namespace.name)])
    }

    private mutating func outcome(of effect: CommitMachine.Effect) -> CommitMachine.Event? {
        do throws(LogStoreError) {
            return try execute(effect)
        } catch {
            return failed(error)
        }
    }

    /// Executes an effect; returns nil after the last one.
    private mutating func execute(_ effect: CommitMachine.Effect) throws(LogStoreError) -> CommitMachine.Event? {
        switch effect {
        case .connect:
            if isTooLateToAsk { return .failed(.connectionLost, context.circumstances) }
            // A stopping engine makes only the shortest attempt to connect.
            let connection = try context.connection.get(by: context.core.stopsNow ? 0 : waiting.first?.deadline)
            context.core.blockers.enter(context.index, pid: connection.backendPID)
            self.connection = connection
            return .connected
        case .evaluate(let isRepeated):
            return try evaluate(at: isRepeated ? progress.lost.first?.timestamp : nil)
        case .keepLost:
            context.core.metrics.unknownCommits.add()
            if let current = progress.current { progress.lost.append(current) }
        case .dropConnection:
            // When several batches were lost with one connection, the first batch may already have opened another one.
            context.connection.drop(connection)
            connection = nil
        case .reportFailure where namespace.hasEnded:
            // The end of the namespace has already been logged.
            break
        case .reportFailure where progress.error?.isStop == true: break
        case .reportFailure:
            context.core.logger.error(
                "commit failed", [("namespace", namespace.name), ("error", progress.error.map { "\($0)" } ?? "")])
        case .pause: context.pauseBeforeRetry()
        case .search, .follow, .lockHead, .unlockHead, .checkHead, .forgetClaims, .send:
            guard let connection else { preconditionFailure("\(effect) needs a connection") }
            return try execute(effect, on: connection)
        case .publish, .answer, .answerClaimed, .fail:
            progress.isUnknown = effect == .fail(.outcomeUnknown)
            end(effect)
            return nil
        }
        return .done
    }

    /// Whether it is too late to search for a lost batch: its writers' deadline has passed or the engine stops, and the
    /// database was found to be away. Many batches may have been lost at once, with one transaction or with the
    /// network, and each attempt to reach a silent database takes time. Later batches, and the caller that stops the
    /// engine, would wait for one attempt after another.
    private var isTooLateToAsk: Bool {
        guard !progress.lost.isEmpty, !context.core.health.isUp, !context.connection.isThere else { return false }
        return context.core.stopsNow || waiting.first.map { $0.deadline <= Clock.monotonicMilliseconds } ?? true
    }

    private mutating func execute(
        _ effect: CommitMachine.Effect, on connection: LogConnection
    ) throws(LogStoreError) -> CommitMachine.Event {
        switch effect {
        case .search(let number):
            let batch = progress.lost[number].batch
            let isFound = try connection.findBatch(batch)
            let now = namespace.snapshot
            return .searched(
                isFound: isFound, hasMoved: now.seq != batch.expectedHead || !now.isOf(batch.expectedBatch))
        case .follow:
            let before = namespace.snapshot.seq
            let batches = try context.follower.follow(namespace, connection)
            return .followed(batches, isComplete: namespace.snapshot.seq - before == Int64(batches.count))
        case .lockHead:
            let (isHeld, batches) = try context.follower.lockHead(namespace, connection)
            return .locked(isHeld: isHeld, batches)
        case .unlockHead:
            if answersRepeated { try connection.confirmLockedHead() } else { connection.unlockHead() }
        case .checkHead:
            let isNewest = try context.follower.isAtHead(namespace, connection)
            if isNewest, answersRepeated { try connection.confirmHead(namespace.id) }
            return .headChecked(isNewest: isNewest)
        case .forgetClaims:
            for claim in progress.current?.batch.claims ?? [] { try connection.forgetSession(namespace.id, claim) }
        case .send(let isLocked):
            guard let current = progress.current else { break }
            return try send(current.batch, isLocked: isLocked, on: connection)
        default: break
        }
        return .done
    }

    /// - Parameter timestamp: milliseconds since 1970; nil: the current time.
    private mutating func evaluate(at timestamp: Int64?) throws(LogStoreError) -> CommitMachine.Event {
        let snapshot = progress.base ?? namespace.snapshot
        let timestamp = timestamp ?? Clock.unixMilliseconds
        var messages = UpstreamMessages(following: namespace.following, superseded: progress.superseded)
        var evaluation = evaluation(of: snapshot, at: timestamp, messages)
        if evaluation.isMixed {
            messages = UpstreamMessages(following: .upstream, superseded: progress.superseded)
            evaluation = self.evaluation(of: snapshot, at: timestamp, messages)
        }
        // A write that was executed when it first arrived may be refused now. (A batch on an unpublished base cannot
        // query the connection: see `isToBeSentAhead`.)
        if progress.base == nil, !evaluation.refusedNames.isEmpty, try learnDone().knows(oneOf: evaluation.refusedNames)
        {
            evaluation = self.evaluation(of: snapshot, at: timestamp, messages)
        }
        let batch = Batch(
            namespace: namespace.id, expectedHead: snapshot.seq, expectedBatch: snapshot.batch,
            id: evaluation.batchID, records: evaluation.records, rows: evaluation.rows.sink,
            rules: evaluation.newRules, claims: evaluation.claims, names: evaluation.names,
            writers: evaluation.writers, follow: evaluation.follow)
        progress.current = Evaluated(batch, evaluation, messages)
        return .evaluated(batch: batch.id, hasRecords: !batch.records.isEmpty)
    }

    private func evaluation(
        of snapshot: Snapshot, at timestamp: Int64, _ messages: UpstreamMessages
    ) -> Evaluation {
        let hasNames = waiting.contains { $0.write.name != nil }
        var evaluation = Evaluation(
            snapshot, timestamp: timestamp, keepsSteps: namespace.listenerCount > 0,
            done: hasNames ? namespace.doneWrites : DoneWrites(), messages: messages)
        context.stallMeters.measure("evaluation") { for item in waiting { evaluation.apply(item.write) } }
        return evaluation
    }

    /// Whether writes are about to be answered with earlier outcomes while no commit of this batch proves that those
    /// outcomes are on the synchronous standbys.
    private var answersRepeated: Bool {
        progress.current.map { $0.batch.records.isEmpty && $0.repeatedWrites > 0 } ?? false
    }

    /// Looks up which of the named writes were executed before.
    private func learnDone() throws(LogStoreError) -> DoneWrites {
        guard let connection else { return DoneWrites() }
        // All names at once, because the outcomes of only this many writers are kept.
        let names = Set(waiting.compactMap(\.write.name))
        do throws(LogStoreError) {
            let done = try connection.doneWrites(namespace.id, names)
            namespace.learn(done)
            return done
        } catch {
            // The head may be locked.
            connection.unlockHead()
            throw error
        }
    }

    private mutating func send(
        _ batch: Batch, isLocked: Bool, on connection: LogConnection
    ) throws(LogStoreError) -> CommitMachine.Event {
        let start = Clock.monotonicNanoseconds
        return try event(of: try connection.commit(batch, isLocked: isLocked), connection, since: start)
    }

    private mutating func event(
        of outcome: LogConnection.CommitOutcome, _ connection: LogConnection, since start: UInt64
    ) throws(LogStoreError) -> CommitMachine.Event {
        switch outcome {
        case .committed:
            progress.committedAt = connection.committedAt
            context.core.metrics.commitSeconds.observe(Double(Clock.monotonicNanoseconds - start) / 1e9)
            namespace.noteContention(false)
            return .committed
        case .alreadyClaimed: return .alreadyClaimed
        case .alreadyDone:
            // The gateway that executed the write has moved the head, unless that entry was followed already. The
            // writes are evaluated again with that knowledge.
            _ = try learnDone()
            return .headMoved
        case .following:
            // Clients' writes are refused from now on, also those of this batch.
            namespace.following = try connection.following(namespace.id)
            return .following
        case .superseded:
            if let messages = progress.current?.batch.follow?.messages { progress.superseded.insert(messages.fence) }
            return .superseded
        case .headMoved:
            context.core.metrics.conflicts.add()
            namespace.noteContention(true)
            return .headMoved
        }
    }

    // MARK: The end

    private func end(_ effect: CommitMachine.Effect) {
        switch effect {
        case .publish(let sent): if let evaluated = evaluated(sent) { publish(evaluated) }
        case .answer(let sent):
            if let evaluated = evaluated(sent) {
                context.core.metrics.repeatedWrites.add(evaluated.repeatedWrites)
                context.answers.complete(waiting, evaluated.outcomes)
            }
            // No gateway has announced a batch that was committed by an attempt counted as lost and was followed since.
            // Batches without records, whose writes were all refused, need no announcement.
            if case .lost = sent { context.core.notifyOfCommit(to: namespace.id, head: namespace.snapshot.seq) }
        case .answerClaimed:
            context.answers.complete(waiting, [.committed(seq: namespace.snapshot.seq, changes: [])])
        case .fail(.asReported):
            context.answers.fail(waiting, progress.error.map { namespace.meaning(of: $0) } ?? .unavailable(""))
        case .fail(.outcomeUnknown): context.answers.fail(waiting, .outcomeUnknown)
        default: break
        }
    }

    private func evaluated(_ sent: CommitMachine.Sent) -> Evaluated? {
        switch sent {
        case .current: progress.current
        case .lost(let number): progress.lost[number]
        }
    }

    private func publish(_ evaluated: Evaluated) {
        let metrics = context.core.metrics
        metrics.batches.add()
        metrics.batchSize.observe(Double(evaluated.batch.records.count))
        metrics.writes.add(evaluated.batch.records.count)
        metrics.repeatedWrites.add(evaluated.repeatedWrites)
        context.core.recent.note(namespace.id, evaluated.snapshot)
        let rowsBefore = namespace.snapshot.root.rowCount
        // Data before acknowledgement: listeners are notified before the writers are answered (rtdb-protocol 3.6).
        if evaluated.keepsSteps {
            context.stallMeters.measure("listeners") {
                namespace.publish(stamped(evaluated.steps), evaluated.snapshot)
            }
        } else if !namespace.publishUnheard(evaluated.snapshot) {
            // A listener was added meanwhile. Another evaluation with the same time gives the same steps.
            var again = Evaluation(
                namespace.snapshot, timestamp: evaluated.timestamp, keepsSteps: true, batchID: evaluated.batch.id,
                done: evaluated.done, messages: evaluated.messages)
            for item in waiting { again.apply(item.write) }
            context.stallMeters.measure("listeners") { namespace.publish(stamped(again.steps), evaluated.snapshot) }
        }
        let rowGrowth = evaluated.snapshot.root.rowCount - rowsBefore
        namespace.grew(by: evaluated.batch.rows.textGrowth + rowGrowth * NamespaceMemory.bytesOfRow)
        context.answers.complete(waiting, evaluated.outcomes)
        context.core.notifyOfCommit(to: namespace.id, head: evaluated.snapshot.seq)
    }

    /// Returns the steps with the log's commit time.
    private func stamped(_ steps: [Step]) -> [Step] {
        guard let committedAt = progress.committedAt else { return steps }
        var steps = steps
        for index in steps.indices { steps[index].committedAt = committedAt }
        return steps
    }
}

extension CommitMachine.Effect {
    /// Whether the effect precedes the first send of a batch and waits for no lock.
    var isPreparation: Bool {
        switch self {
        case .connect(isRetry: false), .evaluate(isRepeated: false): true
        default: false
        }
    }
}

extension CommitMachine.Failure {
    /// Classifies a database error.
    init(_ error: LogStoreError) {
        self = error.isConnectionLost ? .connectionLost : error.isLockConflict ? .lockConflict : .other
    }
}
