import LogStore
import Postgres
import Runtime

/// One committer: a thread with a connection that takes namespaces with work, one at a time.
///
///     CommitterJobs.next
///       |
///       +-- .work(namespace), more work waits --> SharedTransaction  batches of several namespaces, one transaction
///       |                                            |
///       |                                            |  the first namespace has to commit alone
///       |                                            v
///       +-- .work(namespace) ---------------------> follow the log, if its head may have moved; then
///       |                                              LargeCommit    one large write
///       |                                              CommitChain    batches of the namespace, one after another
///       |
///       +-- .goOn(batch) -------------------------> BatchCommit    a batch that a committer has begun before
///       |
///       +-- .stop --------------------------------> the thread closes its connection and ends
///
/// At most one committer works on a namespace at a time: `NamespaceSchedule` assigns it, and `finishedTask` returns
/// whether the committer queues it again. The committer passes such namespaces to the next call of
/// `CommitterJobs.next`, which queues them after all waiting work. While a committer works in the database,
/// `ActiveDatabaseCalls` has the backend of its connection, and `BlockerWatch` looks for the sessions that block that
/// backend.
final class Committer {
    private let core: EngineCore
    private let context: CommitterContext
    private let delaySignal = CommitDelayCondition(false)
    private var sharedSize: SharedTransactionSize

    /// - Parameter wake: ends the committer's wait for the database. Used by this committer only.
    init(_ core: EngineCore, index: Int, wake: WakeHandle) {
        self.core = core
        sharedSize = SharedTransactionSize(most: core.settings.sharedTransactionNamespaces)
        context = CommitterContext(core, index: index, wake: wake)
    }

    /// Works until the engine stops.
    func run() {
        var unfinished: [LiveNamespace] = []
        while true {
            switch core.jobs.next(for: context.index, again: unfinished) {
            case .work(let namespace): unfinished = workWithOthers(namespace) ?? workAlone(namespace)
            case .resume(let progress): unfinished = resume(progress)
            case .stop: return context.connection.drop()
            }
        }
    }

    // MARK: Work

    /// Commits for the namespace and for those that wait after it in one transaction. Returns the namespaces with more
    /// work; nil if no other namespace waits or this one has to commit alone.
    private func workWithOthers(_ namespace: LiveNamespace) -> [LiveNamespace]? {
        guard core.settings.sharedTransactionNamespaces > 1, core.health.isUp, core.jobs.isWaitedFor else { return nil }
        guard sharedSize.next > 1 else {
            sharedSize.committed()
            return nil
        }
        var commit = SharedTransaction(context, namespaces: sharedSize.next)
        guard let ended = commit.run(namespace) else { return nil }
        if commit.isCommitted { sharedSize.committed() } else { sharedSize.failed() }
        return ended.filter { $0.finishedTask(followsLog: true) }
    }

    private func workAlone(_ namespace: LiveNamespace) -> [LiveNamespace] {
        let isRead = work(namespace)
        return namespace.finishedTask(followsLog: isRead) ? [namespace] : []
    }

    /// Continues a batch that this or another committer has begun.
    private func resume(_ progress: BatchProgress) -> [LiveNamespace] {
        let start = Clock.monotonicNanoseconds
        // A batch of which nothing was sent fails like a new one: each attempt to reach a silent database takes time.
        if progress.lost.isEmpty, !core.health.isUp, !context.connection.answers() {
            context.answers.fail(progress.waiting, .unavailable(core.health.reason))
        } else {
            var commit = BatchCommit(progress, context)
            commit.run()
        }
        progress.namespace.batchEnded(writes: progress.waiting.count, since: start)
        return progress.namespace.finishedTask(followsLog: true) ? [progress.namespace] : []
    }

    /// Returns false if the log could not be read. Then the tail's next check causes another attempt, and the head
    /// found before does not.
    private func work(_ namespace: LiveNamespace) -> Bool {
        if !core.jobs.isWaitedFor { namespace.delayCommit(with: delaySignal) }
        let task = namespace.takeTask()
        guard core.health.isUp || context.connection.answers() else {
            context.answers.fail(task.batch, .unavailable(core.health.reason))
            return false
        }
        do throws(LogStoreError) {
            if task.hasToFollow(from: namespace.snapshot.seq) { try catchUp(namespace, to: task.remoteHead) }
        } catch {
            let facts = [("namespace", namespace.name), ("error", "\(error)")]
            switch error {
            // The event that ended the namespace, such as its move, has already been logged.
            case .unknownNamespace, .stopped: core.logger.debug("a namespace is no longer read", facts)
            default: core.logger.error("the log can't be read", facts)
            }
            context.answers.fail(task.batch, namespace.meaning(of: error))
            return false
        }
        if let large = task.batch.first?.large {
            var commit = LargeCommit(large, in: namespace, context)
            commit.run()
        } else if !task.batch.isEmpty {
            var chain = CommitChain(context, namespace)
            chain.run(BatchProgress(task.batch, in: namespace, isContended: task.isContended))
        }
        return true
    }

    private func catchUp(_ namespace: LiveNamespace, to head: Int64) throws(LogStoreError) {
        var hasReconnected = false
        while true {
            do throws(LogStoreError) {
                _ = try context.follower.follow(namespace, try context.connection.get(), to: head)
                return
            } catch {
                guard error.isConnectionLost else { throw error }
                context.connection.drop()
                // The connection may date from before an outage that is over.
                if hasReconnected || !core.health.isUp { throw error }
                hasReconnected = true
            }
        }
    }
}
