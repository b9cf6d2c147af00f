import Runtime

/// What waits for the committers in one namespace, and whether one of them has it. A value; its owner locks.
///
/// At most one committer works on a namespace at a time, so that everything that only the working committer touches needs no
/// lock. Whoever adds work hands the namespace over unless somebody has it; whoever works on it asks at the end whether there
/// is more.
struct NamespaceSchedule: Sendable {
    private var queue = WriteQueue()
    private var waiters = SeqWaiters()
    private var contention = Contention()
    private var standing = Standing()
    /// The highest head that was heard of.
    private(set) var remoteHead: Int64
    /// Up to which entry all who listen have been told.
    private(set) var toldSeq: Int64
    /// Somebody has found that the database has another history of it: not ruled out or dealt with yet.
    private(set) var isSuspect = false
    /// A committer has it, or it waits for one.
    private(set) var isScheduled = false
    private var gathering: Gathering
    /// The committer that waits for more writes before it takes the next batch, and for how many.
    private var gatherer: (bell: any GatheringBell, expected: Int)?
    /// Why new writes are refused.
    var refusal: EngineError?
    /// No committer takes anything any more.
    private var isClosed = false
    /// Announced heads in a row that the log does not reach, and until when others are left out for that.
    private var falseHeads = 0
    private var doubtsUntil: Milliseconds = 0
    private static let longestDoubtMilliseconds: Milliseconds = 1_000

    /// - Parameters:
    ///   - head: where the namespace's snapshot is.
    ///   - gathering: when a batch waits for more writes.
    init(head: Int64, gathering: Gathering = Gathering(longest: 0)) {
        remoteHead = head
        toldSeq = head
        self.gathering = gathering
    }

    /// How many writes wait.
    var waitingWrites: Int { queue.count }

    /// True when nothing waits and no committer works here.
    var isIdle: Bool { queue.isEmpty && !isScheduled }

    /// True when somebody waits for an entry that isn't here yet.
    var hasWaiters: Bool { !waiters.isEmpty }

    /// Takes out those who have waited for too long.
    mutating func takeDueWaiters(now: Milliseconds) -> [SeqWaiters.Body] { waiters.takeDue(now: now) }

    // MARK: Work that comes

    /// True when the namespace has to be handed to the committers, as none has it.
    mutating func schedule() -> Bool {
        defer { isScheduled = true }
        return !isScheduled
    }

    /// Queues a write; what it is refused for, if it is.
    ///
    /// - Parameter outage: why the database can't be written to, if it is known that it can't.
    mutating func add(_ item: WriteQueue.Waiting, _ settings: EngineSettings, outage: String?) -> EngineError? {
        if let refusal { return refusal }
        // Behind a batch whose outcome is being found out it would wait for nothing.
        if let outage { return .unavailable(outage) }
        return queue.append(item, settings) ? nil : .overloaded
    }

    /// Queues what is left of a large write; what it is refused for, if it is.
    mutating func addLarge(_ item: WriteQueue.Waiting) -> EngineError? {
        // It was accepted before the engine began to stop, and is finished as long as there are committers.
        if isClosed { return .stopping }
        if let refusal, refusal != .stopping { return refusal }
        // What it stands for is written already: it takes no room of others.
        queue.appendAnyway(item)
        return nil
    }

    /// Adds somebody who waits until the snapshot has come to a seq.
    mutating func addWaiter(_ seq: Int64, now: Milliseconds, deadline: Milliseconds, _ body: @escaping SeqWaiters.Body)
    {
        waiters.add(seq, now: now, deadline: deadline, body)
    }

    /// Somebody said that the log reaches to `seq`. True when the namespace has to be handed to the committers.
    ///
    /// - Parameter known: where the snapshot is.
    mutating func headSeen(_ seq: Int64, known: Int64) -> Bool {
        remoteHead = max(remoteHead, seq)
        return remoteHead > known && schedule()
    }

    /// Whether an announced head is worth a look.
    func believesAnnouncements(at now: Milliseconds) -> Bool { now >= doubtsUntil }

    /// The database may have another history of it. True when the namespace has to be handed to the committers.
    mutating func suspect() -> Bool {
        isSuspect = true
        return schedule()
    }

    // MARK: Gathering

    /// The committer that has it asks whether to wait for more writes, and until when; nil: not now.
    mutating func gather(at desk: any GatheringBell, now: UInt64) -> UInt64? {
        guard let (expected, deadline) = gathering.wait(queued: queue.count, now: now) else { return nil }
        gatherer = (desk, expected)
        return deadline
    }

    /// The committer that waits for writes, once they are there.
    mutating func takeGatherer() -> (any GatheringBell)? {
        guard let waiting = gatherer, queue.count >= waiting.expected else { return nil }
        gatherer = nil
        return waiting.bell
    }

    /// The committer waits no longer.
    mutating func stopGathering() { gatherer = nil }

    /// The committer that has it has ended a batch of so many writes, which took so many nanoseconds.
    ///
    /// - Parameter underWay: how many are in batches that were sent behind it.
    mutating func batchEnded(writes: Int, underWay: Int, took: UInt64, now: UInt64) {
        gathering.batchEnded(answered: writes, waiting: queue.count, underWay: underWay, took: took, now: now)
    }

    // MARK: Work that is done

    /// What the committer that has it does next.
    mutating func takeTask(_ settings: EngineSettings) -> NamespaceTask {
        standing.wentAlone()
        return nextTask(settings)
    }

    /// The same, if it may be done in one transaction with what others have to do; nil, and nothing is taken, where it has to
    /// be done alone.
    ///
    /// - Parameter snapshot: what the namespace is now.
    mutating func takeJointTask(
        _ room: JointRoom, _ settings: EngineSettings, at snapshot: Snapshot
    ) -> NamespaceTask? {
        guard standing.mayJoin, !contention.isContended, !isSuspect, remoteHead <= snapshot.seq,
            queue.fits(rows: room.rows, bytes: room.bytes, settings, snapshot.root)
        else {
            return nil
        }
        return nextTask(settings)
    }

    /// What the committer that has it may do behind a batch that is being committed.
    enum TaskBehind {
        case batch([WriteQueue.Waiting])
        /// Once enough is there, the bell rings.
        case notYet
        /// Nothing, before that is answered.
        case no
    }

    /// - Parameters:
    ///   - head: where the log will be when all that is under way is committed.
    ///   - bell: is rung where more is expected.
    mutating func takeTaskBehind(
        _ head: Int64, _ settings: EngineSettings, bell: any GatheringBell
    ) -> TaskBehind {
        guard !contention.isContended, !isSuspect, remoteHead <= head, !queue.isNextAlone,
            let writes = gathering.behind(batches: settings.batchesUnderWay)
        else { return .no }
        let expected = min(writes, settings.maxBatchWrites)
        guard queue.count >= expected else {
            gatherer = (bell, expected)
            return .notYet
        }
        let batch = queue.takeBatch(settings, bytes: Self.mostBytesBehind)
        // So few large values had better go together. A single one is taken however large it is.
        let isTooLarge = batch.count == 1 && batch[0].write.byteCount > Self.mostBytesBehind
        guard batch.count >= min(expected, Self.leastBehind), !isTooLarge else {
            putBack(batch)
            return .no
        }
        standing.wentAlone()
        return .batch(batch)
    }

    /// More than the socket takes waits in this process until the batch before is answered, and the server, which has the head's
    /// lock then, waits for the rest.
    private static let mostBytesBehind = 1 << 18
    private static let leastBehind = 64

    /// Writes that were taken behind a batch and are not to be sent there: they come first again.
    mutating func putBack(_ batch: [WriteQueue.Waiting]) {
        queue.putBack(batch)
        gathering.wasForNothing()
    }

    /// It has made others wait, and goes alone for a while.
    mutating func standAside() { standing.standAside() }

    /// A batch of it was worked for among those of others, and has kept them from going on for long, or not.
    mutating func wentWithOthers(isSlow: Bool) { standing.wentWithOthers(isSlow: isSlow) }

    private mutating func nextTask(_ settings: EngineSettings) -> NamespaceTask {
        NamespaceTask(
            remoteHead: remoteHead, isSuspect: isSuspect, batch: queue.takeBatch(settings),
            isContended: contention.isContended, hasWaiters: !waiters.isEmpty)
    }

    /// The committer that has it is done for now. True when there is more to do, and it keeps it.
    ///
    /// - Parameters:
    ///   - followsLog: false when the log can't be read now; then what is in it is left to the tail's next look.
    ///   - known: where the snapshot is.
    mutating func finishedTask(followsLog: Bool, known: Int64) -> Bool {
        isScheduled = !queue.isEmpty || (followsLog && remoteHead > known)
        return isScheduled
    }

    /// The committer that has it has compared it with the log, and it is as the log says.
    ///
    /// - Parameters:
    ///   - head: where the log was said to end, if anybody said so.
    ///   - end: where it does.
    ///   - known: where the snapshot is.
    ///   - now: monotonic milliseconds.
    mutating func checked(_ head: Int64?, reaches end: Int64?, known: Int64, now: Milliseconds) {
        isSuspect = false
        guard let head, let end else { return }
        guard head > end else {
            falseHeads = 0
            return
        }
        // A head of a history that is no more, or a forged one; a later one is heard of again.
        if remoteHead == head { remoteHead = known }
        falseHeads = min(falseHeads + 1, 10)
        doubtsUntil = now + min(Self.longestDoubtMilliseconds, 10 << Milliseconds(falseHeads))
    }

    /// Whether the last batch found the head moved.
    mutating func noteContention(_ isContended: Bool) {
        if isContended { contention.conflicted() } else { contention.committed() }
    }

    /// The snapshot has come to `seq`: those who waited for it, to be told.
    mutating func reached(_ seq: Int64) -> [SeqWaiters.Body] {
        remoteHead = max(remoteHead, seq)
        toldSeq = seq
        return waiters.take(upTo: seq)
    }

    /// The snapshot is another one, of whatever history: those who waited for it, to be told.
    mutating func reset(to seq: Int64) -> [SeqWaiters.Body] {
        // What was heard of a later head was of a database that is no more; a still later one is heard of again.
        remoteHead = seq
        toldSeq = seq
        return waiters.take(upTo: seq)
    }

    /// What is left when the committers have ended; nothing comes after it.
    mutating func close() -> [WriteQueue.Waiting] {
        isClosed = true
        return queue.takeAll()
    }
}

/// What the committer that works on a namespace has to do.
struct NamespaceTask: Sendable {
    /// The highest head that was heard of.
    let remoteHead: Int64
    /// Somebody has found that the database has another history of the namespace.
    let isSuspect: Bool
    /// The writes of the next batch; may be empty.
    let batch: [WriteQueue.Waiting]
    /// Whether others were writing here lately.
    let isContended: Bool
    /// Somebody waits for an entry that isn't here yet.
    let hasWaiters: Bool

    /// Whether the log has to be looked at before anything else is done.
    ///
    /// - Parameter seq: where the namespace's snapshot is.
    func hasToFollow(from seq: Int64) -> Bool {
        remoteHead > seq || isSuspect || (hasWaiters && batch.isEmpty)
    }
}

/// What a transaction of several namespaces has room for. A value.
struct JointRoom: Equatable, Sendable {
    var namespaces: Int
    var rows: Int
    var bytes: Int

    /// A batch is among them.
    mutating func take(rows: Int, bytes: Int) {
        namespaces -= 1
        self.rows -= rows
        self.bytes -= bytes
    }

    var isFull: Bool { namespaces <= 0 || rows <= 0 || bytes <= 0 }
}

/// Whether others write to a namespace, too: then batches take the head's lock before they are evaluated. A value.
struct Contention: Equatable, Sendable {
    /// How many batches in a row must find nobody else before the lock is no longer worth its round trip.
    static let memory = 64

    private var left = 0

    /// Whether somebody else was found to be writing lately.
    var isContended: Bool { left > 0 }

    /// A batch found the head moved.
    mutating func conflicted() { left = Self.memory }

    /// A batch was committed.
    mutating func committed() { left = max(0, left - 1) }
}

/// Whether a namespace's batches may share a transaction with those of others. A value.
///
/// Who made others wait stands aside for some batches: its rules or its listeners take long, or somebody holds its lock.
struct Standing: Equatable, Sendable {
    /// How many batches go alone before the namespace is tried among others again.
    static let memory = 64
    /// How many batches in a row have to have been slow. One may be so by chance: a busy machine stops threads for some
    /// milliseconds, and whoever they work for just then looks slow.
    static let mostSlow = 2

    private var left = 0
    private var slow = 0

    var mayJoin: Bool { left == 0 }

    /// It has made others wait.
    mutating func standAside() {
        left = Self.memory
        slow = 0
    }

    /// A batch of it was worked for among those of others, and has kept them from going on for long, or not.
    mutating func wentWithOthers(isSlow: Bool) {
        slow = isSlow ? slow + 1 : 0
        if slow >= Self.mostSlow { standAside() }
    }

    /// A batch went alone.
    mutating func wentAlone() { left = max(0, left - 1) }
}

/// Those who wait until a namespace has come to a seq. A value; its owner locks.
struct SeqWaiters: Sendable {
    /// Called when the seq is there.
    typealias Body = @Sendable () -> Void

    private struct Waiter: Sendable {
        let seq: Int64
        /// The monotonic millisecond after which nobody cares any more.
        let deadline: Milliseconds
        let body: Body
    }
    private var waiters: [Waiter] = []

    /// True when nobody waits.
    var isEmpty: Bool { waiters.isEmpty }

    /// Adds one, and forgets those that are due: a seq that never comes must cost no memory for ever.
    ///
    /// - Parameter now: monotonic milliseconds.
    mutating func add(_ seq: Int64, now: Milliseconds, deadline: Milliseconds, _ body: @escaping Body) {
        // All wait about as long, so the oldest is the first that is due.
        if let oldest = waiters.first, oldest.deadline <= now { waiters.removeAll { $0.deadline <= now } }
        waiters.append(Waiter(seq: seq, deadline: deadline, body: body))
    }

    /// Takes out those about whom nobody cares any more.
    mutating func takeDue(now: Milliseconds) -> [Body] {
        let due = waiters.filter { $0.deadline <= now }
        if !due.isEmpty { waiters.removeAll { $0.deadline <= now } }
        return due.map(\.body)
    }

    /// Takes out those whose seq is there, in the order in which they came.
    mutating func take(upTo seq: Int64) -> [Body] {
        guard !waiters.isEmpty else { return [] }
        let ready = waiters.filter { $0.seq <= seq }
        if !ready.isEmpty { waiters.removeAll { $0.seq <= seq } }
        return ready.map(\.body)
    }
}
