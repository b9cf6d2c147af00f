import LogStore
import Runtime

/// Commits batches of several namespaces in one transaction: what waits is taken and evaluated one by one, sent together, and then
/// each goes on by itself, as its machine decides.
struct JointCommit {
    private let context: CommitterContext
    private var room: JointRoom
    /// Those whose batches are to be sent, and those with which something else is to be done.
    private var members: [BatchCommit] = []
    private var others: [BatchCommit] = []
    /// Namespaces that waited and have to be worked for alone.
    private var passedOver: [LiveNamespace] = []
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
        context.core.jobs.addFirst(passedOver.map { .work($0) })
        let ended = members.count > 1 ? commit() : end(members)
        return (ended + end(others)).map { commit in
            let (namespace, writes) = (commit.progress.namespace, commit.progress.waiting.count)
            namespace.batchEnded(writes: writes, since: start)
            return namespace
        }
    }

    // MARK: Gathering

    private mutating func gather(_ task: NamespaceTask, of first: LiveNamespace) {
        let longest = UInt64(context.core.settings.jointEvaluationMicroseconds) * 1_000
        let start = Clock.monotonicNanoseconds
        var now = start
        var next: (namespace: LiveNamespace, task: NamespaceTask)? = (first, task)
        while let (namespace, task) = next {
            var commit = BatchCommit(BatchProgress(task.batch, in: namespace, isContended: false), context)
            commit.goOn(while: \.isPreparation)
            let before = now
            now = Clock.monotonicNanoseconds
            let rows = commit.progress.current?.batch.rows.count ?? 0
            // What others would wait for again and again: it costs much, or is more than it seemed.
            if now - before > longest / 2 || rows > room.rows { namespace.standAside() }
            if commit.progress.next == .send(isLocked: false), rows <= room.rows {
                members.append(commit)
            } else {
                others.append(commit)
            }
            room.take(rows: max(1, rows), bytes: task.batch.reduce(0) { $0 + $1.write.byteCount })
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

    // MARK: Committing

    private mutating func commit() -> [BatchCommit] {
        let metrics = context.core.metrics
        var isSent = false
        do throws(LogStoreError) {
            let connection = try context.connection.get()
            context.core.blockers.enter(context.index, pid: connection.backendPID)
            defer { context.core.blockers.leave(context.index) }
            try leaveOutThoseWithoutPartition(connection)
            guard members.count > 1 else { return end(members) }
            members.sort { $0.progress.namespace.id < $1.progress.namespace.id }
            let start = Clock.monotonicNanoseconds
            isSent = true
            let times = try connection.commitJointly(
                members.compactMap { $0.progress.current?.batch },
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
            return goOn(.cameToNothing)
        }
    }

    private mutating func leaveOutThoseWithoutPartition(_ connection: LogConnection) throws(LogStoreError) {
        let missing = try connection.withoutPartition(members.compactMap { $0.progress.current?.batch })
        guard !missing.isEmpty else { return }
        others += members.filter { missing.contains($0.progress.namespace.id) }
        members.removeAll { missing.contains($0.progress.namespace.id) }
    }

    /// Tells each member what became of the transaction, and returns those whose writes are answered.
    private func goOn(
        _ outcome: JointOutcome, _ times: [Milliseconds] = [], error: LogStoreError? = nil
    ) -> [BatchCommit] {
        var ended: [BatchCommit] = []
        var handedOn: [BatchProgress] = []
        var paused: [BatchCommit] = []
        for (number, member) in members.enumerated() {
            var member = member
            switch outcome.continuation(context.circumstances) {
            case .alone: handedOn.append(member.progress.fromTheBeginning)
            case .event(let event):
                member.take(event, committedAt: times.indices.contains(number) ? times[number] : nil, error: error)
                member.goOn { $0 != .pause }
                if member.progress.next == nil { ended.append(member) } else { paused.append(member) }
            }
        }
        if !paused.isEmpty {
            // Once for all of them.
            context.pauseBeforeRetry()
            for var member in paused {
                member.take(.done)
                handedOn.append(member.progress)
            }
        }
        // This committer takes what nobody else is free for.
        context.core.jobs.addFirst(handedOn.map { .goOn($0) })
        return ended
    }

    private func end(_ commits: [BatchCommit]) -> [BatchCommit] {
        commits.map { commit in
            var commit = commit
            commit.run()
            return commit
        }
    }
}

extension CommitMachine.Effect {
    /// Whether it comes before a batch is sent for the first time and waits for nobody's lock.
    fileprivate var isPreparation: Bool {
        switch self {
        case .connect(isRetry: false), .evaluate(isRepeated: false): true
        default: false
        }
    }
}
