import Runtime

/// The waiting work for the committers in one namespace, and whether one of them has the namespace. A value; its owner
/// locks.
///
/// At most one committer works on a namespace at a time, so state that only the working committer accesses needs no
/// lock. A thread that adds work queues the namespace unless a committer has it; the committer checks at the end
/// whether there is more work.
struct NamespaceSchedule: Sendable {
    private var queue = WriteQueue()
    private var waiters = SeqWaiters()
    private var contention = WriterContention()
    private var standing = FairnessPenalty()
    /// The highest head that was reported.
    private(set) var remoteHead: Int64
    /// The seq of the last entry of which all listeners have been notified.
    private(set) var reportedSeq: Int64
    /// Whether a check found that the database has another history of the namespace, and no committer has dealt with
    /// that yet.
    private(set) var isSuspect = false
    /// Whether a committer has the namespace, or the namespace waits for one.
    private(set) var isScheduled = false
    private var commitDelay: CommitDelay
    /// The committer that waits for more writes before it takes the next batch, and the number of writes.
    private var delayed: (signal: any CommitDelaySignal, expected: Int)?
    /// The reason why new writes are rejected.
    var refusal: EngineError?
    /// Whether the committers have ended.
    private var isClosed = false
    /// The number of consecutive announced heads that the log did not reach, and the time until which announcements are
    /// therefore ignored.
    private var falseHeads = 0
    private var doubtsUntil: Milliseconds = 0
    private static let longestDoubtMilliseconds: Milliseconds = 1_000

    /// - Parameters:
    ///   - head: the seq of the namespace's snapshot.
    ///   - commitDelay: decides when a batch waits for more writes.
    init(head: Int64, commitDelay: CommitDelay = CommitDelay(longest: 0)) {
        remoteHead = head
        reportedSeq = head
        self.commitDelay = commitDelay
    }

    /// The number of waiting writes.
    var waitingWrites: Int { queue.count }

    /// True if no write waits and no committer works on the namespace.
    var isIdle: Bool { queue.isEmpty && !isScheduled }

    /// True if callbacks wait for entries that have not been applied yet.
    var hasWaiters: Bool { !waiters.isEmpty }

    /// Removes and returns the callbacks that have waited for too long.
    mutating func takeDueWaiters(now: Milliseconds) -> [SeqWaiters.Body] { waiters.takeDue(now: now) }

    // MARK: Adding work

    /// Marks the namespace as scheduled. Returns true if the caller has to queue it for the committers.
    mutating func schedule() -> Bool {
        defer { isScheduled = true }
        return !isScheduled
    }

    /// Queues a write. Returns the reason if it was rejected, otherwise nil.
    ///
    /// - Parameter outage: the reason why the database cannot be written to, if that is known.
    mutating func add(_ item: WriteQueue.Waiting, _ settings: EngineSettings, outage: String?) -> EngineError? {
        if let refusal { return refusal }
        // While the outcome of a lost batch is being determined, the write would wait in vain.
        if let outage { return .unavailable(outage) }
        return queue.append(item, settings) ? nil : .overloaded
    }

    /// Queues a prepared large write. Returns the reason if it was rejected, otherwise nil.
    mutating func addLarge(_ item: WriteQueue.Waiting) -> EngineError? {
        // The write was accepted before the engine began to stop, and is finished as long as there are committers.
        if isClosed { return .stopping }
        if let refusal, refusal != .stopping { return refusal }
        // The write's rows are already written, so it does not count towards the limits.
        queue.appendAnyway(item)
        return nil
    }

    /// Adds a callback that waits until the snapshot has reached a seq.
    mutating func addWaiter(_ seq: Int64, now: Milliseconds, deadline: Milliseconds, _ body: @escaping SeqWaiters.Body)
    {
        waiters.add(seq, now: now, deadline: deadline, body)
    }

    /// Records a report that the log reaches `seq`. Returns true if the caller has to queue the namespace for the
    /// committers.
    ///
    /// - Parameter known: the seq of the snapshot.
    mutating func headSeen(_ seq: Int64, known: Int64) -> Bool {
        remoteHead = max(remoteHead, seq)
        return remoteHead > known && schedule()
    }

    /// Whether announced heads are followed at present.
    func believesAnnouncements(at now: Milliseconds) -> Bool { now >= doubtsUntil }

    /// Records that the database may have another history of the namespace. Returns true if the caller has to queue it
    /// for the committers.
    mutating func suspect() -> Bool {
        isSuspect = true
        return schedule()
    }

    // MARK: Commit delay

    /// Returns the deadline until which the committer waits for more writes; nil if it does not wait.
    mutating func delayCommit(with delaySignal: any CommitDelaySignal, now: UInt64) -> UInt64? {
        guard let (expected, deadline) = commitDelay.wait(queued: queue.count, now: now) else { return nil }
        delayed = (delaySignal, expected)
        return deadline
    }

    /// Removes and returns the signal of the waiting committer once enough writes are there.
    mutating func takeDelayed() -> (any CommitDelaySignal)? {
        guard let waiting = delayed, queue.count >= waiting.expected else { return nil }
        delayed = nil
        return waiting.signal
    }

    /// Ends the committer's wait.
    mutating func endDelay() { delayed = nil }

    /// Records that the committer has ended a batch of so many writes, which took so many nanoseconds.
    ///
    /// - Parameter inFlight: the number of writes in batches that were sent after it.
    mutating func batchEnded(writes: Int, inFlight: Int, took: UInt64, now: UInt64) {
        commitDelay.batchEnded(answered: writes, waiting: queue.count, inFlight: inFlight, took: took, now: now)
    }

    // MARK: Doing work

    /// Returns the next task of the committer that has the namespace.
    mutating func takeTask(_ settings: EngineSettings) -> NamespaceTask {
        standing.wentAlone()
        return nextTask(settings)
    }

    /// Returns the next task if it may be part of a shared transaction. Returns nil, without taking anything, if it has
    /// to be done alone.
    ///
    /// - Parameter snapshot: the namespace's present snapshot.
    mutating func takeSharedTask(
        _ room: SharedTransactionLimits, _ settings: EngineSettings, at snapshot: Snapshot
    ) -> NamespaceTask? {
        guard standing.mayJoin, !contention.isContended, !isSuspect, remoteHead <= snapshot.seq,
            queue.fits(rows: room.rows, bytes: room.bytes, settings, snapshot.root)
        else {
            return nil
        }
        return nextTask(settings)
    }

    /// The task that the committer may do after a batch that is being committed.
    enum PipelinedTask {
        case batch([WriteQueue.Waiting])
        /// More writes are expected; `signal` is signaled once there are enough.
        case notYet
        /// None until the batch has been answered.
        case no
    }

    /// - Parameters:
    ///   - head: the end of the log after all batches in flight.
    ///   - signal: is signaled once the expected writes are there.
    mutating func takePipelinedTask(
        _ head: Int64, _ settings: EngineSettings, signal: any CommitDelaySignal
    ) -> PipelinedTask {
        guard !contention.isContended, !isSuspect, remoteHead <= head, !queue.isNextAlone,
            let writes = commitDelay.pipelinedWrites(batches: settings.batchesInFlight)
        else { return .no }
        let expected = min(writes, settings.maxBatchWrites)
        guard queue.count >= expected else {
            delayed = (signal, expected)
            return .notYet
        }
        let batch = queue.takeBatch(settings, bytes: Self.mostPipelinedBytes)
        // So few large values are better committed together. A single write is taken at any size.
        let isTooLarge = batch.count == 1 && batch[0].write.byteCount > Self.mostPipelinedBytes
        guard batch.count >= min(expected, Self.leastPipelined), !isTooLarge else {
            putBack(batch)
            return .no
        }
        standing.wentAlone()
        return .batch(batch)
    }

    /// Bytes that exceed the socket's buffer remain in this process until the previous batch is answered. The server
    /// already holds the head's lock then, and waits for the rest.
    private static let mostPipelinedBytes = 1 << 18
    private static let leastPipelined = 64

    /// Puts writes back that were taken after a batch and must not be sent there; they come first again.
    mutating func putBack(_ batch: [WriteQueue.Waiting]) {
        queue.putBack(batch)
        commitDelay.wasForNothing()
    }

    /// Makes the namespace commit alone for a while, because it delayed others.
    mutating func standAside() { standing.standAside() }

    /// Records that a shared transaction processed a batch of the namespace, and whether that delayed the others for
    /// long.
    mutating func wentWithOthers(isSlow: Bool) { standing.wentWithOthers(isSlow: isSlow) }

    private mutating func nextTask(_ settings: EngineSettings) -> NamespaceTask {
        NamespaceTask(
            remoteHead: remoteHead, isSuspect: isSuspect, batch: queue.takeBatch(settings),
            isContended: contention.isContended, hasWaiters: !waiters.isEmpty)
    }

    /// Ends the committer's task. Returns true if there is more work, and the committer keeps the namespace.
    ///
    /// - Parameters:
    ///   - followsLog: false if the log cannot be read now; then the tail's next check triggers the next read.
    ///   - known: the seq of the snapshot.
    mutating func finishedTask(followsLog: Bool, known: Int64) -> Bool {
        isScheduled = !queue.isEmpty || (followsLog && remoteHead > known)
        return isScheduled
    }

    /// Records that the committer has compared the namespace with the log and found it correct.
    ///
    /// - Parameters:
    ///   - head: the reported end of the log, if any.
    ///   - end: the actual end of the log.
    ///   - known: the seq of the snapshot.
    ///   - now: monotonic milliseconds.
    mutating func checked(_ head: Int64?, reaches end: Int64?, known: Int64, now: Milliseconds) {
        isSuspect = false
        guard let head, let end else { return }
        guard head > end else {
            falseHeads = 0
            return
        }
        // The head belongs to a history that no longer exists, or was forged; a later head is reported again.
        if remoteHead == head { remoteHead = known }
        falseHeads = min(falseHeads + 1, 10)
        doubtsUntil = now + min(Self.longestDoubtMilliseconds, 10 << Milliseconds(falseHeads))
    }

    /// Records whether the last batch found that another gateway had moved the head.
    mutating func noteContention(_ isContended: Bool) {
        if isContended { contention.conflicted() } else { contention.committed() }
    }

    /// Records that the snapshot has reached `seq`, and returns the callbacks that waited for it.
    mutating func reached(_ seq: Int64) -> [SeqWaiters.Body] {
        remoteHead = max(remoteHead, seq)
        reportedSeq = seq
        return waiters.take(upTo: seq)
    }

    /// Records that the snapshot was replaced by one of any history, and returns the callbacks that waited for it.
    mutating func reset(to seq: Int64) -> [SeqWaiters.Body] {
        // Reports of a later head referred to a history that no longer exists; a still later head is reported again.
        remoteHead = seq
        reportedSeq = seq
        return waiters.take(upTo: seq)
    }

    /// Returns the remaining writes when the committers have ended; none are accepted afterwards.
    mutating func close() -> [WriteQueue.Waiting] {
        isClosed = true
        return queue.takeAll()
    }
}

/// A task for the committer that works on a namespace.
struct NamespaceTask: Sendable {
    /// The highest head that was reported.
    let remoteHead: Int64
    /// Whether a check found that the database has another history of the namespace.
    let isSuspect: Bool
    /// The writes of the next batch; may be empty.
    let batch: [WriteQueue.Waiting]
    /// Whether others wrote to the namespace lately.
    let isContended: Bool
    /// Whether callbacks wait for entries that have not been applied yet.
    let hasWaiters: Bool

    /// Whether the log has to be followed before anything else is done.
    ///
    /// - Parameter seq: the seq of the namespace's snapshot.
    func hasToFollow(from seq: Int64) -> Bool {
        remoteHead > seq || isSuspect || (hasWaiters && batch.isEmpty)
    }
}

/// The remaining limits of a shared transaction. A value.
struct SharedTransactionLimits: Equatable, Sendable {
    var namespaces: Int
    var rows: Int
    var bytes: Int

    /// Subtracts a batch that was added.
    mutating func take(rows: Int, bytes: Int) {
        namespaces -= 1
        self.rows -= rows
        self.bytes -= bytes
    }

    var isFull: Bool { namespaces <= 0 || rows <= 0 || bytes <= 0 }
}

/// Whether other gateways write to a namespace, too: then batches take the head's lock before they are evaluated. A
/// value.
struct WriterContention: Equatable, Sendable {
    /// The number of consecutive batches without a conflict after which the lock is no longer worth its round trip.
    static let memory = 64

    private var left = 0

    /// Whether another writer was found lately.
    var isContended: Bool { left > 0 }

    /// Records that a batch found the head moved.
    mutating func conflicted() { left = Self.memory }

    /// Records that a batch was committed.
    mutating func committed() { left = max(0, left - 1) }
}

/// Whether a namespace's batches may be part of shared transactions. A value.
///
/// A namespace that delayed others commits alone for some batches: its rules or its listeners take long, or another
/// session holds its lock.
struct FairnessPenalty: Equatable, Sendable {
    /// The number of batches that commit alone before the namespace is tried in a shared transaction again.
    static let memory = 64
    /// The number of consecutive slow batches after which the namespace commits alone. One batch may be slow by chance:
    /// a busy machine stops threads for some milliseconds, and the namespace in progress appears slow.
    static let mostSlow = 2

    private var left = 0
    private var slow = 0

    var mayJoin: Bool { left == 0 }

    /// Makes the namespace commit alone, because it delayed others.
    mutating func standAside() {
        left = Self.memory
        slow = 0
    }

    /// Records that a shared transaction processed a batch of the namespace, and whether that delayed the others for
    /// long.
    mutating func wentWithOthers(isSlow: Bool) {
        slow = isSlow ? slow + 1 : 0
        if slow >= Self.mostSlow { standAside() }
    }

    /// Records that a batch committed alone.
    mutating func wentAlone() { left = max(0, left - 1) }
}

/// Callbacks that wait until a namespace has reached a seq. A value; its owner locks.
struct SeqWaiters: Sendable {
    /// Called once the seq is reached.
    typealias Body = @Sendable () -> Void

    private struct Waiter: Sendable {
        let seq: Int64
        /// The monotonic millisecond after which the callback is dropped.
        let deadline: Milliseconds
        let body: Body
    }
    private var waiters: [Waiter] = []

    var isEmpty: Bool { waiters.isEmpty }

    /// Adds a callback and drops those that are due, because a seq that never arrives must not use memory forever.
    ///
    /// - Parameter now: monotonic milliseconds.
    mutating func add(_ seq: Int64, now: Milliseconds, deadline: Milliseconds, _ body: @escaping Body) {
        // All callbacks wait for about the same time, so the oldest is due first.
        if let oldest = waiters.first, oldest.deadline <= now { waiters.removeAll { $0.deadline <= now } }
        waiters.append(Waiter(seq: seq, deadline: deadline, body: body))
    }

    /// Removes and returns the callbacks that are due.
    mutating func takeDue(now: Milliseconds) -> [Body] {
        let due = waiters.filter { $0.deadline <= now }
        if !due.isEmpty { waiters.removeAll { $0.deadline <= now } }
        return due.map(\.body)
    }

    /// Removes and returns the callbacks whose seq is reached, in the order in which they were added.
    mutating func take(upTo seq: Int64) -> [Body] {
        guard !waiters.isEmpty else { return [] }
        let ready = waiters.filter { $0.seq <= seq }
        if !ready.isEmpty { waiters.removeAll { $0.seq <= seq } }
        return ready.map(\.body)
    }
}
