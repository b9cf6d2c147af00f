import LogStore
import Runtime

/// Commits batches of several namespaces in one shared transaction: takes and evaluates the waiting namespaces one by
/// one and sends their batches together. Afterwards each batch continues by its own machine.
///
/// Namespaces whose writes were answered become free before anything else is done. Batches that cannot be sent with the
/// others, or have to continue alone, are queued for the next free committer.
struct SharedTransaction {
    /// A namespace whose batch is to be sent.
    private struct Member {
        var commit: BatchCommit
        /// Nanoseconds that this committer has worked for this member so far, while the others waited.
        var nanoseconds: UInt64

        var namespace: LiveNamespace { commit.progress.namespace }
    }

    private let context: CommitterContext
    private var room: SharedTransactionLimits
    private var members: [Member] = []
    /// Waiting namespaces that have to commit alone, and batches that have to continue alone.
    private var passedOver: [LiveNamespace] = []
    private var others: [BatchProgress] = []
    /// False after a shared transaction that failed.
    private(set) var isCommitted = true

    init(_ context: CommitterContext, namespaces: Int) {
        self.context = context
        let settings = context.core.settings
        room = SharedTransactionLimits(
            namespaces: namespaces, rows: settings.sharedTransactionRows, bytes: settings.maxBatchBytes)
    }

    /// Maximum number of namespaces passed over because they have to commit alone.
    private static let mostPassedOver = 16

    /// Commits for the namespace and for those that wait after it. Returns the namespaces whose writes are answered;
    /// the others have been queued. Returns nil, without doing anything, if the namespace has to commit alone.
    mutating func run(_ first: LiveNamespace) -> [LiveNamespace]? {
        guard let task = first.takeSharedTask(room) else { return nil }
        let start = Clock.monotonicNanoseconds
        prepare(task, of: first)
        context.core.jobs.addFirst(others.map { .resume($0) } + passedOver.map { .work($0) })
        return commit().map { commit in
            let (namespace, writes) = (commit.progress.namespace, commit.progress.waiting.count)
            namespace.batchEnded(writes: writes, since: start)
            return namespace
        }
    }

    /// Queues batches before all others. This committer takes those for which no other committer is free.
    private func handOn(_ batches: [BatchProgress]) { context.core.jobs.addFirst(batches.map { .resume($0) }) }

    // MARK: Collecting batches

    /// Nanoseconds for which batches are evaluated before those already evaluated are sent.
    private var longest: UInt64 { UInt64(context.core.settings.sharedTransactionEvaluationMicroseconds) * 1_000 }

    private mutating func prepare(_ task: NamespaceTask, of first: LiveNamespace) {
        let start = Clock.monotonicNanoseconds
        var now = start
        var next: (namespace: LiveNamespace, task: NamespaceTask)? = (first, task)
        while let (namespace, task) = next {
            var commit = BatchCommit(BatchProgress(task.batch, in: namespace, isContended: false), context)
            commit.resume(while: \.isPreparation)
            let before = now
            now = Clock.monotonicNanoseconds
            take(Member(commit: commit, nanoseconds: now - before))
            next = room.isFull || now - start > longest || !context.core.health.isUp ? nil : another()
        }
    }

    private mutating func another() -> (LiveNamespace, NamespaceTask)? {
        while passedOver.count < Self.mostPassedOver, let namespace = context.core.jobs.takeNamespace() {
            if let task = namespace.takeSharedTask(room) { return (namespace, task) }
            passedOver.append(namespace)
        }
        return nil
    }

    /// Adds an evaluated batch to the members if it is to be sent and fits the limits.
    private mutating func take(_ member: Member) {
        let progress = member.commit.progress
        let rows = progress.current?.batch.rows.count ?? 0
        let isToBeSent = progress.next == .send(isLocked: false) && rows <= room.rows
        room.take(rows: max(1, rows), bytes: progress.waiting.reduce(0) { $0 + $1.write.byteCount })
        if isToBeSent { return members.append(member) }
        note(member)
        if progress.next == .dropConnection { context.connection.drop() }
        // The batch was refused, failed, or is larger than expected: nothing of it was sent.
        others.append(progress.fromTheBeginning)
    }

    /// A namespace for which the others would have to wait again and again commits alone for a while.
    private func note(_ member: Member) { member.namespace.wentWithOthers(isSlow: member.nanoseconds > longest / 2) }

    // MARK: Committing

    private mutating func commit() -> [BatchCommit] {
        let metrics = context.core.metrics
        var isSent = false
        do throws(LogStoreError) {
            guard members.count > 1 else { return goAlone() }
            let connection = try context.connection.get()
            context.core.blockers.enter(context.index, pid: connection.backendPID)
            defer { context.core.blockers.leave(context.index) }
            try leaveOutThoseWithoutPartition(connection)
            guard members.count > 1 else { return goAlone() }
            members.sort { $0.namespace.id < $1.namespace.id }
            let start = Clock.monotonicNanoseconds
            isSent = true
            let times = try connection.commitJointly(
                members.compactMap { $0.commit.progress.current?.batch },
                lockMilliseconds: context.core.settings.sharedTransactionLockMilliseconds)
            metrics.commitSeconds.observe(Double(Clock.monotonicNanoseconds - start) / 1e9)
            metrics.sharedTransactions.add()
            metrics.sharedTransactionNamespaces.add(members.count)
            return resume(.committed, times)
        } catch {
            isCommitted = false
            metrics.sharedTransactionRetries.add()
            if error.isConnectionLost, isSent { return resume(.unknown, error: error) }
            if error.isConnectionLost { context.connection.drop() }
            if error.isLockTimeout { leaveAsideLocked() }
            return resume(.cameToNothing)
        }
    }

    /// Commits the only remaining batch as if no other namespace had waited.
    private func goAlone() -> [BatchCommit] {
        members.map { member in
            var commit = member.commit
            commit.run()
            return commit
        }
    }

    private mutating func leaveOutThoseWithoutPartition(_ connection: LogConnection) throws(LogStoreError) {
        let missing = try connection.withoutPartition(members.compactMap { $0.commit.progress.current?.batch })
        guard !missing.isEmpty else { return }
        handOn(members.filter { missing.contains($0.namespace.id) }.map(\.commit.progress.fromTheBeginning))
        members.removeAll { missing.contains($0.namespace.id) }
    }

    /// Handles a lock timeout. Only namespaces whose heads are locked by another session commit alone for a while: the
    /// commit times of the others say nothing about them if the disk is slow. (A namespace whose head has moved is
    /// contended, and finds that out by itself.)
    private func leaveAsideLocked() {
        do throws(LogStoreError) {
            let locked = try context.connection.get().lockedHeads(members.map(\.namespace.id))
            for member in members where locked.contains(member.namespace.id) { member.namespace.standAside() }
        } catch {
            if error.isConnectionLost { context.connection.drop() }
        }
    }

    /// Passes the outcome of the transaction to each member, and returns the batches whose writes are answered.
    private func resume(
        _ outcome: SharedTransactionOutcome, _ times: [Milliseconds] = [], error: LogStoreError? = nil
    ) -> [BatchCommit] {
        var ended: [BatchCommit] = []
        var handedOn: [BatchProgress] = []
        var paused: [BatchCommit] = []
        var now = Clock.monotonicNanoseconds
        for (number, member) in members.enumerated() {
            var member = member
            switch outcome.continuation(context.circumstances) {
            case .alone: handedOn.append(member.commit.progress.fromTheBeginning)
            case .event(let event):
                member.commit.take(
                    event, committedAt: times.indices.contains(number) ? times[number] : nil, error: error)
                member.commit.resume { $0 != .pause }
                if member.commit.progress.next == nil {
                    ended.append(member.commit)
                } else {
                    paused.append(member.commit)
                }
            }
            // The members after this one have waited until its listeners were notified.
            let before = now
            now = Clock.monotonicNanoseconds
            member.nanoseconds += now - before
            note(member)
        }
        if !paused.isEmpty {
            // One pause for all of them.
            context.pauseBeforeRetry()
            for var commit in paused {
                commit.take(.done)
                handedOn.append(commit.progress)
            }
        }
        handOn(handedOn)
        return ended
    }
}

/// The outcome of a shared transaction, and its meaning for each member. Pure.
///
/// The transaction is only a first attempt without further consequences: each member's machine has requested that its
/// batch be sent, and continues from there by itself.
enum SharedTransactionOutcome: Hashable, Sendable {
    case committed
    /// The transaction was certainly rolled back, for a moved head, a lock or any other reason.
    case cameToNothing
    /// The connection was lost, or the server committed without its standby. Either all or none of the batches are in
    /// the log; each is searched for by its own id.
    case unknown

    /// How a member continues.
    enum Continuation: Hashable, Sendable {
        /// The member's machine gets this event for the batch that it had sent.
        case event(CommitMachine.Event)
        /// As if there had been no shared transaction: alone, and evaluated again. The member that caused the failure
        /// finds that out by itself.
        case alone
    }

    func continuation(_ circumstances: CommitMachine.Circumstances) -> Continuation {
        switch self {
        case .committed: .event(.committed)
        case .cameToNothing: .alone
        case .unknown: .event(.failed(.connectionLost, circumstances))
        }
    }
}

/// The number of namespaces that a committer takes into one shared transaction. A value.
///
/// If such transactions fail (other gateways write to the same namespaces, or other sessions hold locks), the next one
/// takes fewer namespaces, so that fewer are affected.
struct SharedTransactionSize: Equatable, Sendable {
    private let most: Int
    /// The number of namespaces for the next transaction; 1: each namespace commits alone.
    private(set) var next: Int

    /// - Parameter most: maximum number of namespaces.
    init(most: Int) {
        self.most = max(1, most)
        next = self.most
    }

    /// Records that a shared transaction failed.
    mutating func failed() { next = max(1, next / 2) }

    /// Records that a shared transaction was committed, or a single batch while others waited.
    mutating func committed() { next = min(most, next + max(1, next / 4)) }
}
