import LogStore
import Rules
import Runtime
import Tree

/// Makes a large write the next entry, in its turn among the namespace's batches: executes the effects of its
/// `LargeCommitMachine` on the committer's thread. The write's transaction is on a connection of its own; other reads
/// use the committer's connection.
struct LargeCommit {
    private let context: CommitterContext
    private let namespace: LiveNamespace
    private let write: LargeWrite
    private var machine: LargeCommitMachine
    private var batch: Batch?
    /// The last error of the write's transaction.
    private var error: LogStoreError?
    /// Whether the write is an upstream message that is not the next one.
    private var isSuperseded = false

    init(_ write: LargeWrite, in namespace: LiveNamespace, _ context: CommitterContext) {
        self.context = context
        self.namespace = namespace
        self.write = write
        machine = LargeCommitMachine(patience: context.core.settings.commitDeadlineMilliseconds)
    }

    /// Returns when the large writer has the outcome.
    mutating func run() {
        context.core.blockers.enter(context.index, pid: write.connection.backendPID)
        var effect = machine.start()
        while let event = outcome(of: effect) { effect = machine.handle(event) }
        context.core.blockers.leave(context.index)
        write.finish(result(effect))
    }

    private mutating func outcome(of effect: LargeCommitMachine.Effect) -> LargeCommitMachine.Event? {
        do throws(LogStoreError) {
            return try execute(effect)
        } catch {
            // An error of the search for the outcome says nothing about the write.
            if !effect.isSearch { self.error = error }
            return .failed(
                isConnectionLost: error.isConnectionLost, now: Clock.monotonicMilliseconds,
                isStopping: context.core.stopsNow)
        }
    }

    /// Executes an effect; returns nil after the last one.
    private mutating func execute(
        _ effect: LargeCommitMachine.Effect
    ) throws(LogStoreError) -> LargeCommitMachine.Event? {
        switch effect {
        case .follow, .followFound:
            _ = try context.follower.follow(namespace, try context.connection.get())
            return .followed
        case .lockHead: return .locked(head: try write.connection.lockHeadForLarge(namespace.id), ends)
        case .takeIn(let seq): return .tookIn(try takeIn(after: seq) ? ends : nil)
        case .judge: return .judged(isAllowed: isStillAllowed)
        case .commit:
            switch try commit() {
            case .committed: return .committed
            case .superseded: isSuperseded = true
            default: namespace.following = try context.connection.get().following(namespace.id)
            }
            return .refused
        case .search:
            let connection = try context.connection.get()
            guard let batch else { return .searched(isFound: false) }
            return .searched(isFound: try connection.findBatch(batch))
        case .dropConnection:
            context.connection.drop()
            return .done
        case .pause:
            context.pauseBeforeRetry()
            return .waited(now: Clock.monotonicMilliseconds, isStopping: context.core.stopsNow)
        case .publish, .notify:
            if effect == .publish { publish() }
            // No gateway has announced a write that was committed by an attempt counted as lost and was followed since.
            context.core.notifyOfCommit(to: namespace.id, head: namespace.snapshot.seq)
            if let batch {
                write.item.sink.complete([
                    (write.item.token, .committed(seq: batch.newHead, changes: write.reported))
                ])
            }
            return nil
        case .prepareAgain, .giveUp, .outcomeUnknown: return nil
        }
    }

    private func result(_ effect: LargeCommitMachine.Effect) -> LargeWrite.Result {
        switch effect {
        case .publish, .notify: .done
        case .giveUp where isSuperseded: .failed(.superseded)
        case .giveUp: error.map { .connectionFailed($0) } ?? .again
        case .outcomeUnknown: .failed(.outcomeUnknown)
        default: .again
        }
    }

    private var ends: LargeCommitMachine.Ends {
        let snapshot = namespace.snapshot
        return LargeCommitMachine.Ends(
            namespace: snapshot.position, write: write.tree.position)
    }

    /// Applies the next entries to the namespace and to the write. Returns false if that is impossible: entries are
    /// missing, or are rules or stored in parts, or overlap the write, or the database has another history.
    private func takeIn(after seq: Int64) throws(LogStoreError) -> Bool {
        let known = ends
        let start = known.namespace.seq == seq ? known.namespace : known.write
        var log = LogFollower(namespace.id, at: LogPosition(seq: seq, batch: start.batch)) { $0.checksHistory = true }
        guard case .entries(let page) = try log.next(on: write.connection), page.allSatisfy(\.isPlain) else {
            return false
        }
        for end in [known.namespace, known.write] {
            let there = end.seq == seq ? start.batch : page.first { $0.entry.seq == end.seq }?.batchID
            if let there, let batch = end.batch, there != batch { return false }
        }
        context.follower.apply(page.filter { $0.entry.seq > known.namespace.seq }, to: namespace)
        return write.tree.take(page.filter { $0.entry.seq > known.write.seq })
    }

    /// Rules may depend on anything: if the tree differs from the one on which they allowed the write, they are
    /// evaluated again.
    private var isStillAllowed: Bool {
        let snapshot = namespace.snapshot
        guard snapshot.rules === write.tree.base.rules else { return false }
        if write.item.write.auth.isAdmin || snapshot.seq == write.tree.base.seq { return true }
        return context.stallMeters.measure("evaluation") {
            WriteTrial.refusal(of: write.item.write, on: snapshot, now: Clock.unixMilliseconds) == nil
        }
    }

    private mutating func commit() throws(LogStoreError) -> LogConnection.CommitOutcome {
        let snapshot = namespace.snapshot
        let batch = Batch(
            namespace: namespace.id, expectedHead: snapshot.seq, expectedBatch: snapshot.batch, id: write.id,
            records: [write.record], rows: RowChanges(), names: write.item.write.name.map { [$0] } ?? [],
            writers: write.item.write.name.map { [$0.writer: write.item.write.writerIdentity] } ?? [:],
            follow: FollowPass(
                write.item.write.upstream.map {
                    FollowPass.Messages(fence: $0.fence, after: $0.number - 1, upto: $0.number)
                }))
        self.batch = batch
        let metrics = context.core.metrics
        let start = Clock.monotonicNanoseconds
        do throws(LogStoreError) {
            let outcome = try write.connection.commitLarge(batch, large: write.number, parts: write.parts)
            guard outcome == .committed else { return outcome }
        } catch {
            if error.isConnectionLost { metrics.unknownCommits.add() }
            throw error
        }
        metrics.commitSeconds.observe(Double(Clock.monotonicNanoseconds - start) / 1e9)
        metrics.batches.add()
        metrics.batchSize.observe(1)
        metrics.writes.add()
        return .committed
    }

    private func publish() {
        let before = namespace.snapshot
        let entry = Entry(
            seq: before.seq + 1, committedAt: Clock.unixMilliseconds, operation: write.record.operation,
            path: write.record.path, changes: write.changes, origin: write.record.origin)
        context.follower.publish(
            [Step(entry: entry, before: before.root, after: write.tree.root, batch: write.id)],
            Snapshot(seq: entry.seq, root: write.tree.root, rules: before.rules, batch: write.id), in: namespace)
        // The tree may date from before the namespace was reloaded into pages.
        if namespace.memory.hasPages { namespace.recount() }
    }
}

extension LargeCommitMachine.Effect {
    fileprivate var isSearch: Bool { self == .search || self == .followFound }
}
