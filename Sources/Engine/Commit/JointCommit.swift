import LogStore
import Runtime

/// Commits batches of several namespaces in one transaction: what waits is taken and evaluated one by one, sent together, and then
/// each goes on by itself, as its machine decides.
///
/// Namespaces that were answered are free again before anything else is done: what can't be sent with the others, or has to go on
/// alone, is handed on to whoever is free for it, and takes its time there.
struct JointCommit {
    /// One whose batch is to be sent.
    private struct Member {
        var commit: BatchCommit
        /// For how long this committer has worked for it so far, and done nothing for the others.
        var nanoseconds: UInt64

        var namespace: LiveNamespace { commit.progress.namespace }
    }

    private let context: CommitterContext
    private var room: JointRoom
    private var members: [Member] = []
    /// Namespaces that waited and have to be worked for alone, and batches that have to go on so.
    private var passedOver: [LiveNamespace] = []
    private var others: [BatchProgress] = []
    /// False where a transaction came to nothing.
    private(set) var isCommitted = true

    init(_ context: CommitterContext, namespaces: Int) {
        self.context = context
        let settings = context.core.settings
        room = JointRoom(namespaces: namespaces, rows: settings.jointRows, bytes: settings.maxBatchBytes)
    }

    /// How many namespaces that have to be worked for alone are passed over.
    private static let mostPassedOver = 16

    /// Works for the namespace and for those that wait behind it. Returns those whose writes are answered; the others have been handed
    /// on. Nil, and nothing is done, where it has to be worked for alone.
    mutating func run(_ first: LiveNamespace) -> [LiveNamespace]? {
        guard let task = first.takeJointTask(room) else { return nil }
        let start = Clock.monotonicNanoseconds
        gather(task, of: first)
        context.core.jobs.addFirst(others.map { .goOn($0) } + passedOver.map { .work($0) })
        return commit().map { commit in
            let (namespace, writes) = (commit.progress.namespace, commit.progress.waiting.count)
            namespace.batchEnded(writes: writes, since: start)
            return namespace
        }
    }

    /// This committer takes what nobody else is free for.
    private func handOn(_ batches: [BatchProgress]) { context.core.jobs.addFirst(batches.map { .goOn($0) }) }

    // MARK: Gathering

    /// For how long batches are evaluated until those that are go off.
    private var longest: UInt64 { UInt64(context.core.settings.jointEvaluationMicroseconds) * 1_000 }

    private mutating func gather(_ task: NamespaceTask, of first: LiveNamespace) {
        let start = Clock.monotonicNanoseconds
        var now = start
        var next: (namespace: LiveNamespace, task: NamespaceTask)? = (first, task)
        while let (namespace, task) = next {
            var commit = BatchCommit(BatchProgress(task.batch, in: namespace, isContended: false), context)
            commit.goOn(while: \.isPreparation)
            let before = now
            now = Clock.monotonicNanoseconds
            take(Member(commit: commit, nanoseconds: now - before))
            next = room.isFull || now - start > longest || !context.core.health.isUp ? nil : another()
        }
    }

    private mutating func another() -> (LiveNamespace, NamespaceTask)? {
        while passedOver.count < Self.mostPassedOver, let namespace = context.core.jobs.takeNamespace() {
            if let task = namespace.takeJointTask(room) { return (namespace, task) }
            passedOver.append(namespace)
        }
        return nil
    }

    /// Takes one that has been evaluated among the members, if its batch is to be sent and there is room for it.
    private mutating func take(_ member: Member) {
        let progress = member.commit.progress
        let rows = progress.current?.batch.rows.count ?? 0
        let isToBeSent = progress.next == .send(isLocked: false) && rows <= room.rows
        room.take(rows: max(1, rows), bytes: progress.waiting.reduce(0) { $0 + $1.write.byteCount })
        if isToBeSent { return members.append(member) }
        note(member)
        if progress.next == .dropConnection { context.connection.drop() }
        // It was refused, failed, or is more than it seemed: nothing of it was sent.
        others.append(progress.fromTheBeginning)
    }

    /// Whom the others would wait for again and again is to stand aside.
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
                lockMilliseconds: context.core.settings.jointLockMilliseconds)
            metrics.commitSeconds.observe(Double(Clock.monotonicNanoseconds - start) / 1e9)
            metrics.jointTransactions.add()
            metrics.jointNamespaces.add(members.count)
            return goOn(.committed, times)
        } catch {
            isCommitted = false
            metrics.jointRetries.add()
            if error.isConnectionLost, isSent { return goOn(.unknown, error: error) }
            if error.isConnectionLost { context.connection.drop() }
            if error.isLockTimeout { leaveAsideWhoIsLocked() }
            return goOn(.cameToNothing)
        }
    }

    /// The only one that is left is what it would be if nobody else had waited.
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

    /// A lock was waited for in vain. Only those stand aside whose heads somebody holds: how long the others take to commit says
    /// nothing of them where the disk is slow. (Whose head has moved is contended, and finds that out by itself.)
    private func leaveAsideWhoIsLocked() {
        do throws(LogStoreError) {
            let locked = try context.connection.get().lockedHeads(members.map(\.namespace.id))
            for member in members where locked.contains(member.namespace.id) { member.namespace.standAside() }
        } catch {
            if error.isConnectionLost { context.connection.drop() }
        }
    }

    /// Tells each member what became of the transaction, and returns those whose writes are answered.
    private func goOn(
        _ outcome: JointOutcome, _ times: [Milliseconds] = [], error: LogStoreError? = nil
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
                member.commit.goOn { $0 != .pause }
                if member.commit.progress.next == nil {
                    ended.append(member.commit)
                } else {
                    paused.append(member.commit)
                }
            }
            // Those behind it have waited until its listeners were told.
            let before = now
            now = Clock.monotonicNanoseconds
            member.nanoseconds += now - before
            note(member)
        }
        if !paused.isEmpty {
            // Once for all of them.
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

/// What became of a transaction with batches of several namespaces, and what that is to each of them. Pure.
///
/// The transaction is a first try, which binds nobody: each member's machine has said that its batch is to be sent, and goes on from
/// there by itself.
enum JointOutcome: Hashable, Sendable {
    case committed
    /// It was rolled back for certain, whoever was the reason: a head that had moved, a lock, anything else.
    case cameToNothing
    /// The connection was lost, or the server has committed alone. The batches are in the log or not, all or none; each is searched
    /// for by its own id.
    case unknown

    /// How a member goes on.
    enum Continuation: Hashable, Sendable {
        /// Its machine hears this of the batch that it had sent.
        case event(CommitMachine.Event)
        /// As if there had been no such transaction: alone, and evaluated anew. Who was the reason finds it out by itself.
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

/// How many namespaces a committer takes into one transaction. A value.
///
/// Where such transactions come to nothing (other gateways write to the same namespaces, somebody holds locks), fewer namespaces
/// have something to lose by the next one.
struct JointSize: Equatable, Sendable {
    private let most: Int
    /// How many it takes next; 1: each goes alone.
    private(set) var next: Int

    /// - Parameter most: how many it ever takes.
    init(most: Int) {
        self.most = max(1, most)
        next = self.most
    }

    /// One has come to nothing.
    mutating func failed() { next = max(1, next / 2) }

    /// One was committed, or a batch alone where others waited.
    mutating func committed() { next = min(most, next + max(1, next / 4)) }
}
