import LogStore
import Postgres
import Rules
import Runtime
import Synchronization
public import Tree

/// A namespace that is in use: its newest tree, its waiting writes, its listeners. Any thread may use it.
public final class LiveNamespace: Sendable {
    public let id: Int64
    public let name: String
    /// What the ids of stream events are signed with, here and on other gateways.
    public let streamKey: [UInt8]

    /// Ordered indexes for queries.
    public let indexes: IndexCache
    /// What it takes of memory.
    let memory: NamespaceMemory
    let published: Published
    /// Named writes that were found to be done when they came again.
    private let done = Mutex(DoneWrites())
    let scheduling: Mutex<NamespaceSchedule>
    let settings: EngineSettings
    private let health: DatabaseHealth?
    private let host: NamespaceHost
    private let ended = Atomic<Bool>(false)

    convenience init(
        _ record: NamespaceRecord, _ snapshot: Snapshot, _ settings: EngineSettings, memory: NamespaceMemory,
        health: DatabaseHealth? = nil, host: NamespaceHost
    ) {
        self.init(
            id: record.id, name: record.name, streamKey: Array(record.streamKey.utf8), snapshot, settings,
            memory: memory, health: health, host: host)
    }

    /// - Parameter host: who works for it.
    init(
        id: Int64, name: String, streamKey: [UInt8], _ snapshot: Snapshot, _ settings: EngineSettings,
        memory: NamespaceMemory, health: DatabaseHealth?, host: NamespaceHost
    ) {
        self.id = id
        self.name = name
        self.streamKey = streamKey
        published = Published(snapshot)
        scheduling = Mutex(
            NamespaceSchedule(
                head: snapshot.seq,
                gathering: Gathering(longest: UInt64(max(0, settings.batchWaitMicroseconds)) * 1_000)))
        self.settings = settings
        self.memory = memory
        indexes = IndexCache(memory)
        self.health = health
        self.host = host
    }

    /// It among the namespaces of all databases.
    public var key: NamespaceKey { NamespaceKey(database: settings.database, id: id) }

    /// The newest state that this gateway has.
    public var snapshot: Snapshot { published.snapshot }
    public var listenerCount: Int { published.listenerCount }
    public var waitingWrites: Int { scheduling.withLock { $0.waitingWrites } }
    /// Entries that are in the log and not yet here.
    public var lag: Int64 {
        let head = scheduling.withLock { $0.remoteHead }
        return max(0, head - snapshot.seq)
    }

    /// The database has it no more: nothing comes from it and nothing goes to it.
    public var hasEnded: Bool { ended.load(ordering: .acquiring) }

    // MARK: Listening

    /// Adds a listener at a path. It is told of every step after the snapshot returned, in order, and of none before.
    public func subscribe(_ listener: any ChangeListener, at path: Path) -> Snapshot {
        published.subscribe(listener, at: path)
    }

    /// Takes a listener away. It may still be told of steps that are being published now.
    public func unsubscribe(_ listener: any ChangeListener, at path: Path) {
        published.unsubscribe(listener, at: path)
    }

    /// Calls `body` once this gateway has applied `seq`; at once when it has. On any thread. Forgets it after
    /// `milliseconds`: a seq that never comes must cost no memory for ever.
    public func whenApplied(_ seq: Int64, within milliseconds: Int64 = 60_000, _ body: @escaping @Sendable () -> Void) {
        let now = Clock.monotonicMilliseconds
        let isWaiting = scheduling.withLock { state -> Bool in
            guard published.snapshot.seq < seq else { return false }
            state.addWaiter(seq, now: now, deadline: now + milliseconds, body)
            return true
        }
        if isWaiting { schedule() } else { body() }
    }

    /// As `whenApplied`, once all who listen have been told of everything up to `seq`, too.
    public func whenTold(_ seq: Int64, within milliseconds: Int64, _ body: @escaping @Sendable () -> Void) {
        let now = Clock.monotonicMilliseconds
        let isWaiting = scheduling.withLock { state -> Bool in
            guard state.toldSeq < seq else { return false }
            state.addWaiter(seq, now: now, deadline: now + milliseconds, body)
            return true
        }
        if isWaiting { schedule() } else { body() }
    }

    // MARK: Writing

    /// Queues a write. The outcome comes to the sink, with the token, from another thread.
    public func submit(_ write: Write, to sink: any WriteSink, token: UInt64) {
        let item = WriteQueue.Waiting(
            write: write, sink: sink, token: token,
            deadline: Clock.monotonicMilliseconds + settings.commitDeadlineMilliseconds)
        if write.mayBeOvertaken, isLarge(write) {
            if let refusal = scheduling.withLock({ $0.refusal }) { return sink.complete([(token, .failed(refusal))]) }
            host.prepare(item, self)
        } else {
            enqueue(item)
        }
    }

    /// Whether a write is so large that it would be prepared beside others, if it may be overtaken.
    public func isLarge(_ write: Write) -> Bool { write.isLarge(settings, snapshot.root) }

    /// Queues a write behind the others that wait.
    func enqueue(_ item: WriteQueue.Waiting) {
        let (refusal, gatherer, isNew) = scheduling.withLock { state in
            let refusal = state.add(item, settings, outage: health?.refusal)
            return (refusal, state.takeGatherer(), refusal == nil && state.schedule())
        }
        if let refusal { item.sink.complete([(item.token, .failed(refusal))]) }
        gatherer?.ring()
        if isNew { host.schedule(self) }
    }

    /// Queues what is left of a large write.
    func submit(_ large: LargeWrite) {
        var item = large.item
        item.large = large
        let refusal = scheduling.withLock { $0.addLarge(item) }
        if let refusal { large.finish(.failed(refusal)) } else { schedule() }
    }

    /// Calls back, from another thread, with a snapshot in which is everything that was committed before the call, by
    /// whatever gateway.
    public func withCurrentSnapshot(_ body: @escaping @Sendable (Result<Snapshot, EngineError>) -> Void) {
        // An update of nothing: committers look at the head before they answer.
        let write = Write(.update(base: .root, []), operation: .update, byteCount: 0, auth: .admin)
        let sink = SnapshotSink { [self] outcome in
            if case .failed(let error) = outcome { body(.failure(error)) } else { body(.success(snapshot)) }
        }
        submit(write, to: sink, token: 0)
    }

    /// From now on refuses new writes with this error; nil accepts them again.
    func refuseWrites(_ error: EngineError?) { scheduling.withLock { $0.refusal = error } }

    /// What a failure means for writes to the namespace: where it has ended, why.
    func meaning(of error: LogStoreError) -> EngineError {
        if case .unknownNamespace = error, let refusal = scheduling.withLock({ $0.refusal }) { return refusal }
        return EngineError(error)
    }

    // MARK: For the committers

    /// Hands the namespace to the committers unless one of them has it already.
    func schedule() {
        if scheduling.withLock({ $0.schedule() }) { host.schedule(self) }
    }

    /// Notes that the log reaches to `seq`, as somebody said.
    func headSeen(_ seq: Int64) {
        if scheduling.withLock({ $0.headSeen(seq, known: published.snapshot.seq) }) { host.schedule(self) }
    }

    /// A notification says that the log reaches to `seq`. Every role that can connect can send one: after some that were not true, others are
    /// left out for a while, as the tail's next look finds what they may have said.
    func headAnnounced(_ seq: Int64, now: Milliseconds = Clock.monotonicMilliseconds) {
        guard scheduling.withLock({ $0.believesAnnouncements(at: now) }) else { return }
        headSeen(seq)
    }

    /// The database has another history of the namespace, or none, as the tail found: a committer has to look.
    func suspect() {
        if scheduling.withLock({ $0.suspect() }) { host.schedule(self) }
    }

    /// Whether what this gateway has of the namespace may not be what the database has.
    public var isSuspect: Bool { scheduling.withLock { $0.isSuspect } }

    /// The working committer has compared the namespace with the log, and it is as the log says.
    ///
    /// - Parameters:
    ///   - head: where the log was said to end, if anybody said so.
    ///   - end: where it does.
    func checked(_ head: Int64? = nil, reaches end: Int64? = nil, now: Milliseconds = Clock.monotonicMilliseconds) {
        scheduling.withLock { $0.checked(head, reaches: end, known: published.snapshot.seq, now: now) }
    }

    /// Waits, where that is worth it, until more writes have come for the next batch. Only for the committer that has it.
    func gather(at desk: GatheringDesk) {
        let now = Clock.monotonicNanoseconds
        guard let deadline = scheduling.withLock({ $0.gather(at: desk, now: now) }) else { return }
        _ = desk.wait(untilNanoseconds: deadline) { $0 ? true : nil }
        stopGathering()
        // Whoever took the desk may call only now: then the next wait there is over at once, and looks again.
        desk.withLock { $0 = false }
    }

    /// What the working committer may do behind a batch that is being committed.
    ///
    /// - Parameters:
    ///   - head: where the log will be then.
    ///   - wake: is woken once there is something, where that is to be expected.
    func takeTaskBehind(_ head: Int64, wake: WakeHandle) -> NamespaceSchedule.TaskBehind {
        scheduling.withLock { $0.takeTaskBehind(head, settings, bell: wake) }
    }

    /// Writes that were taken behind a batch, and of which nothing was written: they come first again.
    func putBack(_ batch: [WriteQueue.Waiting]) { scheduling.withLock { $0.putBack(batch) } }

    /// Nobody is told any more that there are more writes.
    func stopGathering() { scheduling.withLock { $0.stopGathering() } }

    /// The working committer has ended a batch.
    ///
    /// - Parameter underWay: how many writes are in batches that were sent behind it.
    func batchEnded(writes: Int, underWay: Int = 0, since start: UInt64) {
        let now = Clock.monotonicNanoseconds
        scheduling.withLock { $0.batchEnded(writes: writes, underWay: underWay, took: now - start, now: now) }
    }

    /// What the working committer has to do.
    func takeTask() -> NamespaceTask { scheduling.withLock { $0.takeTask(settings) } }

    /// True when nothing waits and no committer works here.
    var isIdle: Bool { scheduling.withLock { $0.isIdle } }

    /// True when nobody listens, nothing waits and no committer works here. Who has a reference may still use it.
    var isUnused: Bool { published.listenerCount == 0 && scheduling.withLock { $0.isIdle && !$0.hasWaiters } }

    /// Lets go of those who have waited for a seq for too long.
    func forgetDueWaiters(now: Milliseconds) {
        // They may have the last references to much else: freed outside of the lock.
        let due = scheduling.withLock { $0.takeDueWaiters(now: now) }
        withExtendedLifetime(due) {}
    }

    /// What is left when the committers have ended; nothing comes after it.
    func takeAllWaiting() -> [WriteQueue.Waiting] { scheduling.withLock { $0.close() } }

    /// The working committer is done for now. True when there is more to do, and it still is the working one.
    ///
    /// - Parameter followsLog: false when the log can't be read now; then what is in it is left to the tail's next look.
    func finishedTask(followsLog: Bool) -> Bool {
        scheduling.withLock { $0.finishedTask(followsLog: followsLog, known: published.snapshot.seq) }
    }

    /// Whether the last batch found that others write here, too.
    func noteContention(_ isContended: Bool) { scheduling.withLock { $0.noteContention(isContended) } }

    /// Named writes that are known to be in the log.
    var doneWrites: DoneWrites { done.withLock { $0 } }

    /// Takes in what was found of named writes. They stay done until `reset`.
    func learn(_ found: DoneWrites) { done.withLock { $0.learn(found) } }

    /// Publishes what a batch or the log brought, and wakes who waited for it.
    func publish(_ steps: [Step], _ snapshot: Snapshot) {
        published.publish(steps, snapshot)
        wakeWaiters(snapshot.seq)
    }

    /// Publishes a state to which nobody has followed the way. False, and nothing is done, when somebody listens.
    func publishUnheard(_ snapshot: Snapshot) -> Bool {
        guard published.publishUnheard(snapshot) else { return false }
        wakeWaiters(snapshot.seq)
        return true
    }

    /// A batch or the log has brought something that takes about so many bytes.
    func grew(by bytes: Int) {
        memory.grow(by: bytes)
        if memory.isWorthCounting(rows: snapshot.root.rowCount) { host.recount(self) }
        if memory.areAllOver { host.needRoom() }
    }

    /// Counts what it takes of memory. O(size of the tree), on the thread that has time for it.
    func countMemory() {
        memory.count {
            let snapshot = self.snapshot
            return (snapshot.root.heapBytesOfTree + snapshot.rules.heapBytes, snapshot.root.rowCount)
        }
    }

    /// Has it counted anew what it takes of memory.
    func recount() { host.recount(self) }

    /// The database has this namespace no more: what listens ends, and so do writes.
    ///
    /// - Returns: false where it had ended before.
    @discardableResult func end(with snapshot: Snapshot, _ error: EngineError) -> Bool {
        let hadEnded = ended.exchange(true, ordering: .acquiringAndReleasing)
        refuseWrites(error)
        published.end(with: snapshot)
        return !hadEnded
    }

    /// Replaces the state by one that was read.
    ///
    /// - Parameter isInPages: Whether all of the tree is in pages that can be.
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

/// A namespace among others in one transaction. For the committer that has it.
extension LiveNamespace {
    /// What the working committer has to do, if that may be done together with what others have to do.
    func takeJointTask(_ room: JointRoom) -> NamespaceTask? {
        scheduling.withLock { $0.takeJointTask(room, settings, at: published.snapshot) }
    }

    /// A batch of it was worked for among those of others, and has kept them from going on for long, or not.
    func wentWithOthers(isSlow: Bool) { scheduling.withLock { $0.wentWithOthers(isSlow: isSlow) } }

    /// It has made others wait, and goes alone for a while.
    func standAside() { scheduling.withLock { $0.standAside() } }
}

/// A namespace among those of all databases of a program. An id alone says which one it is in its database.
public struct NamespaceKey: Hashable, Sendable {
    /// See `EngineSettings.database`.
    public let database: Int
    public let id: Int64

    public init(database: Int = 0, id: Int64) {
        self.database = database
        self.id = id
    }
}

/// Who works for the namespaces of an engine: one for all of them. Each may be called on any thread and returns at once.
final class NamespaceHost: Sendable {
    /// Hands a namespace to the committers.
    let schedule: @Sendable (LiveNamespace) -> Void
    /// Hands a large write to the large writer.
    let prepare: @Sendable (WriteQueue.Waiting, LiveNamespace) -> Void
    /// Has it counted anew what a namespace takes of memory.
    let recount: @Sendable (LiveNamespace) -> Void
    /// Has unused namespaces let go, as there is too much in memory.
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
