import LogStore
import Postgres
import Rules
import Runtime
import Synchronization
public import Tree

/// A namespace in memory: its newest tree, its waiting writes and its listeners. Any thread may use it.
public final class LiveNamespace: Sendable {
    public let id: Int64
    public let name: String
    /// The key that signs the ids of stream events, on this gateway and others.
    public let streamKey: [UInt8]

    /// Ordered indexes for queries.
    public let indexes: IndexCache
    /// The estimate of the namespace's memory.
    let memory: NamespaceMemory
    let published: PublishedSnapshot
    /// Named writes that were found to be executed when they arrived again.
    private let done = Mutex(DoneWrites())
    let scheduling: Mutex<NamespaceSchedule>
    let settings: EngineSettings
    private let health: DatabaseHealth?
    private let host: NamespaceHost
    private let ended = Atomic<Bool>(false)
    private let followed = Atomic<UInt8>(Following.nothing.rawValue)

    convenience init(
        _ record: NamespaceRecord, _ snapshot: Snapshot, _ settings: EngineSettings, memory: NamespaceMemory,
        health: DatabaseHealth? = nil, host: NamespaceHost
    ) {
        self.init(
            id: record.id, name: record.name, streamKey: Array(record.streamKey.utf8), snapshot, settings,
            memory: memory, health: health, host: host)
        following = record.following
    }

    /// - Parameter host: receives the namespace's requests for work.
    init(
        id: Int64, name: String, streamKey: [UInt8], _ snapshot: Snapshot, _ settings: EngineSettings,
        memory: NamespaceMemory, health: DatabaseHealth?, host: NamespaceHost
    ) {
        self.id = id
        self.name = name
        self.streamKey = streamKey
        published = PublishedSnapshot(snapshot)
        scheduling = Mutex(
            NamespaceSchedule(
                head: snapshot.seq,
                commitDelay: CommitDelay(longest: UInt64(max(0, settings.batchWaitMicroseconds)) * 1_000)))
        self.settings = settings
        self.memory = memory
        indexes = IndexCache(memory)
        self.health = health
        self.host = host
    }

    /// The key of the namespace among those of all databases.
    public var key: NamespaceKey { NamespaceKey(database: settings.database, id: id) }

    /// The newest state that this gateway has.
    public var snapshot: Snapshot { published.snapshot }
    public var listenerCount: Int { published.listenerCount }
    public var waitingWrites: Int { scheduling.withLock { $0.waitingWrites } }
    /// The number of entries in the log that this gateway has not applied yet.
    public var lag: Int64 {
        let head = scheduling.withLock { $0.remoteHead }
        return max(0, head - snapshot.seq)
    }

    /// Whether the database no longer has the namespace, so that it neither changes nor accepts writes.
    public var hasEnded: Bool { ended.load(ordering: .acquiring) }

    /// Whether the namespace follows an upstream database, so that clients cannot write to it. Known from the last check
    /// of the database, which is repeated about once a second.
    public var isFollowing: Bool { following != .nothing }

    /// Whether the namespace follows an upstream, as far as this gateway knows.
    var following: Following {
        get { Following(rawValue: followed.load(ordering: .relaxed)) ?? .nothing }
        set { followed.store(newValue.rawValue, ordering: .relaxed) }
    }

    // MARK: Listening

    /// Adds a listener at a path. It receives every step after the returned snapshot, in order, and no earlier one.
    public func subscribe(_ listener: any ChangeListener, at path: Path) -> Snapshot {
        published.subscribe(listener, at: path)
    }

    /// Removes a listener. It may still receive steps that are being published now.
    public func unsubscribe(_ listener: any ChangeListener, at path: Path) {
        published.unsubscribe(listener, at: path)
    }

    /// Calls `body` on any thread once this gateway has applied `seq`, immediately if it already has. Drops `body`
    /// after `milliseconds`, because a seq that never arrives must not use memory forever.
    public func whenApplied(_ seq: Int64, within milliseconds: Int64 = 60_000, _ body: @escaping @Sendable () -> Void) {
        let now = Clock.monotonicMilliseconds
        let isWaiting = scheduling.withLock { state -> Bool in
            guard published.snapshot.seq < seq else { return false }
            state.addWaiter(seq, now: now, deadline: now + milliseconds, body)
            return true
        }
        if isWaiting { schedule() } else { body() }
    }

    /// Like `whenApplied`, but waits until all listeners have been notified of the entries up to `seq`, too.
    public func whenReported(_ seq: Int64, within milliseconds: Int64, _ body: @escaping @Sendable () -> Void) {
        let now = Clock.monotonicMilliseconds
        let isWaiting = scheduling.withLock { state -> Bool in
            guard state.reportedSeq < seq else { return false }
            state.addWaiter(seq, now: now, deadline: now + milliseconds, body)
            return true
        }
        if isWaiting { schedule() } else { body() }
    }

    // MARK: Writing

    /// Queues a write. The sink receives the outcome, with the token, from another thread.
    public func submit(_ write: Write, to sink: any WriteSink, token: UInt64) {
        let item = WriteQueue.Waiting(
            write: write, sink: sink, token: token,
            deadline: Clock.monotonicMilliseconds + settings.commitDeadlineMilliseconds)
        // A write that will be refused is not prepared.
        if write.mayBeOvertaken, write.upstream != nil || !isFollowing, isLarge(write) {
            if let refusal = scheduling.withLock({ $0.refusal }) { return sink.complete([(token, .failed(refusal))]) }
            host.prepare(item, self)
        } else {
            enqueue(item)
        }
    }

    /// Whether a write is so large that the large writer would prepare it, if it may be overtaken.
    public func isLarge(_ write: Write) -> Bool { write.isLarge(settings, snapshot.root) }

    /// Queues a write after the waiting ones.
    func enqueue(_ item: WriteQueue.Waiting) {
        let (refusal, delayed, isNew) = scheduling.withLock { state in
            let refusal = state.add(item, settings, outage: health?.refusal)
            return (refusal, state.takeDelayed(), refusal == nil && state.schedule())
        }
        if let refusal { item.sink.complete([(item.token, .failed(refusal))]) }
        delayed?.ring()
        if isNew { host.schedule(self) }
    }

    /// Queues a prepared large write for its commit.
    func submit(_ large: LargeWrite) {
        var item = large.item
        item.large = large
        let refusal = scheduling.withLock { $0.addLarge(item) }
        if let refusal { large.finish(.failed(refusal)) } else { schedule() }
    }

    /// Calls back, from another thread, with a snapshot that contains everything that any gateway committed before the
    /// call.
    public func withCurrentSnapshot(_ body: @escaping @Sendable (Result<Snapshot, EngineError>) -> Void) {
        // An empty update: committers check the head before they answer it.
        let write = Write(.update(base: .root, []), operation: .update, byteCount: 0, auth: .admin)
        let sink = SnapshotSink { [self] outcome in
            if case .failed(let error) = outcome { body(.failure(error)) } else { body(.success(snapshot)) }
        }
        submit(write, to: sink, token: 0)
    }

    /// Rejects new writes with this error from now on; nil accepts them again.
    func refuseWrites(_ error: EngineError?) { scheduling.withLock { $0.refusal = error } }

    /// Returns the error of a failure for writes to the namespace: the reason of its end, if it has ended.
    func meaning(of error: LogStoreError) -> EngineError {
        if case .unknownNamespace = error, let refusal = scheduling.withLock({ $0.refusal }) { return refusal }
        return EngineError(error)
    }

    // MARK: For the committers

    /// Queues the namespace for the committers unless one of them already has it.
    func schedule() {
        if scheduling.withLock({ $0.schedule() }) { host.schedule(self) }
    }

    /// Records a report that the log reaches `seq`.
    func headSeen(_ seq: Int64) {
        if scheduling.withLock({ $0.headSeen(seq, known: published.snapshot.seq) }) { host.schedule(self) }
    }

    /// Records a notification that the log reaches `seq`. Every database role that can connect may send one.
    /// After several false ones, notifications are ignored for a while; the tail's next check finds the commits that
    /// they may have announced.
    func headAnnounced(_ seq: Int64, now: Milliseconds = Clock.monotonicMilliseconds) {
        guard scheduling.withLock({ $0.believesAnnouncements(at: now) }) else { return }
        headSeen(seq)
    }

    /// Marks the namespace for a check by a committer, because the tail found that the database has another history of
    /// it, or none.
    func suspect() {
        if scheduling.withLock({ $0.suspect() }) { host.schedule(self) }
    }

    /// Whether the state on this gateway may differ from the database.
    public var isSuspect: Bool { scheduling.withLock { $0.isSuspect } }

    /// Records that the working committer has compared the namespace with the log and found it correct.
    ///
    /// - Parameters:
    ///   - head: the reported end of the log, if any.
    ///   - end: the actual end of the log.
    func checked(_ head: Int64? = nil, reaches end: Int64? = nil, now: Milliseconds = Clock.monotonicMilliseconds) {
        scheduling.withLock { $0.checked(head, reaches: end, known: published.snapshot.seq, now: now) }
    }

    /// Waits for more writes for the next batch, if the delay is worthwhile. Only for the committer that has the
    /// namespace.
    func delayCommit(with delaySignal: CommitDelayCondition) {
        let now = Clock.monotonicNanoseconds
        guard let deadline = scheduling.withLock({ $0.delayCommit(with: delaySignal, now: now) }) else { return }
        _ = delaySignal.wait(untilNanoseconds: deadline) { $0 ? true : nil }
        endDelay()
        // A thread that took the condition may signal only now. Then the next wait ends immediately, and checks again.
        delaySignal.withLock { $0 = false }
    }

    /// Returns the task that the working committer may do after a batch that is being committed.
    ///
    /// - Parameters:
    ///   - head: the end of the log after that batch.
    ///   - wake: is woken when a task is available, if one is expected.
    func takePipelinedTask(_ head: Int64, wake: WakeHandle) -> NamespaceSchedule.PipelinedTask {
        scheduling.withLock { $0.takePipelinedTask(head, settings, signal: wake) }
    }

    /// Puts writes back that were taken after a batch and of which nothing was written; they come first again.
    func putBack(_ batch: [WriteQueue.Waiting]) { scheduling.withLock { $0.putBack(batch) } }

    /// Cancels the signal for more writes.
    func endDelay() { scheduling.withLock { $0.endDelay() } }

    /// Records that the working committer has ended a batch.
    ///
    /// - Parameter inFlight: the number of writes in batches that were sent after it.
    func batchEnded(writes: Int, inFlight: Int = 0, since start: UInt64) {
        let now = Clock.monotonicNanoseconds
        scheduling.withLock { $0.batchEnded(writes: writes, inFlight: inFlight, took: now - start, now: now) }
    }

    /// Returns the next task of the working committer.
    func takeTask() -> NamespaceTask { scheduling.withLock { $0.takeTask(settings) } }

    /// True if no write waits and no committer works on the namespace.
    var isIdle: Bool { scheduling.withLock { $0.isIdle } }

    /// True if there are no listeners, no waiting writes or callbacks, and no working committer. Code that has a
    /// reference may still use the namespace.
    var isUnused: Bool { published.listenerCount == 0 && scheduling.withLock { $0.isIdle && !$0.hasWaiters } }

    /// Releases callbacks that have waited for a seq for too long.
    func forgetDueWaiters(now: Milliseconds) {
        // The callbacks may hold the last references to many objects, which are freed outside the lock.
        let due = scheduling.withLock { $0.takeDueWaiters(now: now) }
        withExtendedLifetime(due) {}
    }

    /// Returns the remaining writes when the committers have ended; none are accepted afterwards.
    func takeAllWaiting() -> [WriteQueue.Waiting] { scheduling.withLock { $0.close() } }

    /// Ends the working committer's task. Returns true if there is more work, and the committer keeps the namespace.
    ///
    /// - Parameter followsLog: false if the log cannot be read now; then the tail's next check triggers the next read.
    func finishedTask(followsLog: Bool) -> Bool {
        scheduling.withLock { $0.finishedTask(followsLog: followsLog, known: published.snapshot.seq) }
    }

    /// Records whether the last batch found that others write to the namespace, too.
    func noteContention(_ isContended: Bool) { scheduling.withLock { $0.noteContention(isContended) } }

    /// Named writes that are known to be in the log.
    var doneWrites: DoneWrites { done.withLock { $0 } }

    /// Adds found outcomes of named writes. They are kept until `reset`.
    func learn(_ found: DoneWrites) { done.withLock { $0.learn(found) } }

    /// Publishes the steps of a batch or of the log, and calls the callbacks that waited for them.
    func publish(_ steps: [Step], _ snapshot: Snapshot) {
        published.publish(steps, snapshot)
        wakeWaiters(snapshot.seq)
    }

    /// Publishes a state without its steps. Returns false, without publishing, if there are listeners.
    func publishUnheard(_ snapshot: Snapshot) -> Bool {
        guard published.publishUnheard(snapshot) else { return false }
        wakeWaiters(snapshot.seq)
        return true
    }

    /// Records that a batch or the log has added about this many bytes.
    func grew(by bytes: Int) {
        memory.grow(by: bytes)
        if memory.isWorthCounting(rows: snapshot.root.rowCount) { host.recount(self) }
        if memory.areAllOver { host.needRoom() }
    }

    /// Counts the namespace's memory. O(size of the tree), on the memory thread.
    func countMemory() {
        memory.count {
            let snapshot = self.snapshot
            return (snapshot.root.heapBytesOfTree + snapshot.rules.heapBytes, snapshot.root.rowCount)
        }
    }

    /// Requests a new count of the namespace's memory.
    func recount() { host.recount(self) }

    /// Ends the listeners and rejects writes, because the database no longer has this namespace.
    ///
    /// - Returns: false if the namespace had already ended.
    @discardableResult func end(with snapshot: Snapshot, _ error: EngineError) -> Bool {
        let hadEnded = ended.exchange(true, ordering: .acquiringAndReleasing)
        refuseWrites(error)
        published.end(with: snapshot)
        return !hadEnded
    }

    /// Replaces the state by one that was read from the database.
    ///
    /// - Parameter isInPages: Whether everything that pages can hold was paged out.
    func reset(to snapshot: Snapshot, isInPages: Bool = false) {
        done.withLock { $0 = DoneWrites() }
        published.reset(to: snapshot)
        for body in scheduling.withLock({ $0.reset(to: snapshot.seq) }) { body() }
        memory.wasRead(isInPages: isInPages)
        host.recount(self)
    }

    private func wakeWaiters(_ seq: Int64) {
        for body in scheduling.withLock({ $0.reached(seq) }) { body() }
    }
}

/// Waits for one outcome.
private final class SnapshotSink: WriteSink {
    private let body: @Sendable (WriteOutcome) -> Void

    init(_ body: @escaping @Sendable (WriteOutcome) -> Void) { self.body = body }

    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        for (_, outcome) in outcomes { body(outcome) }
    }
}

/// A namespace in shared transactions. For the committer that has the namespace.
extension LiveNamespace {
    /// Returns the next task of the working committer if it may be part of a shared transaction.
    func takeSharedTask(_ room: SharedTransactionLimits) -> NamespaceTask? {
        // The follower's batches would have to obtain their right in the shared transaction.
        isFollowing ? nil : scheduling.withLock { $0.takeSharedTask(room, settings, at: published.snapshot) }
    }

    /// Records that a shared transaction processed a batch of the namespace, and whether that delayed the others for
    /// long.
    func wentWithOthers(isSlow: Bool) { scheduling.withLock { $0.wentWithOthers(isSlow: isSlow) } }

    /// Makes the namespace commit alone for a while, because it delayed others.
    func standAside() { scheduling.withLock { $0.standAside() } }
}

/// The key of a namespace among those of all databases of a program. An id alone is unique within its database.
public struct NamespaceKey: Hashable, Sendable {
    /// See `EngineSettings.database`.
    public let database: Int
    public let id: Int64

    public init(database: Int = 0, id: Int64) {
        self.database = database
        self.id = id
    }
}

/// The functions by which namespaces request work from their engine. One instance per engine; each function may be
/// called on any thread and returns at once.
final class NamespaceHost: Sendable {
    /// Queues a namespace for the committers.
    let schedule: @Sendable (LiveNamespace) -> Void
    /// Queues a large write for the large writer.
    let prepare: @Sendable (WriteQueue.Waiting, LiveNamespace) -> Void
    /// Requests a new count of a namespace's memory.
    let recount: @Sendable (LiveNamespace) -> Void
    /// Requests the eviction of unused namespaces, because trees exceed the budget.
    let needRoom: @Sendable () -> Void

    init(
        schedule: @escaping @Sendable (LiveNamespace) -> Void,
        prepare: @escaping @Sendable (WriteQueue.Waiting, LiveNamespace) -> Void,
        recount: @escaping @Sendable (LiveNamespace) -> Void, needRoom: @escaping @Sendable () -> Void
    ) {
        self.schedule = schedule
        self.prepare = prepare
        self.recount = recount
        self.needRoom = needRoom
    }
}
