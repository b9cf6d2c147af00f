import Postgres
import Runtime

/// Decides whether the next batch of a namespace is delayed for writes that are about to arrive. A value.
///
/// A transaction costs nearly the same for one write as for ten, and a client that has just been answered often writes
/// again. Directly after a batch, the queue may be short only because its writers are still being answered.
/// So the next batch waits until three quarters of the clients have written again that were answered or waiting when
/// the last batch ended, but not longer than that batch took. A single writer is not delayed: one write was answered,
/// none waited, and one is there. Many writers are not delayed either: there are enough of them for each batch, and
/// requests are better read while a batch is synced than between two batches.
struct CommitDelay: Sendable {
    /// With more writers than this, batches are not delayed.
    private static let most = 16

    private let longest: UInt64
    private var expected = 0
    /// The number of writers, taken from the last batches: the counts of a single batch lack the writers that are being
    /// answered.
    private var writers = 0
    /// The number of batches that have to end before one is sent after another again.
    private var alone = 0
    private static let longestAlone = 16
    /// Monotonic nanoseconds.
    private var deadline: UInt64 = 0

    /// - Parameter longest: maximum delay of a batch, in nanoseconds; 0: none.
    init(longest: UInt64) { self.longest = longest }

    /// Records the end of a batch.
    ///
    /// - Parameters:
    ///   - answered: the number of writes in the batch.
    ///   - waiting: the number of writes in the queue.
    ///   - inFlight: the number of writes in batches that were sent after it.
    ///   - took: nanoseconds from its evaluation to its answers.
    ///   - now: monotonic nanoseconds.
    mutating func batchEnded(answered: Int, waiting: Int, inFlight: Int = 0, took: UInt64, now: UInt64) {
        let count = answered + waiting + inFlight
        writers = max(count, writers - max(1, writers / 8))
        alone = max(0, alone - 1)
        // Waiting for all writers would let infrequent ones delay the others each time.
        expected = count <= Self.most ? count * 3 / 4 : 0
        deadline = now + min(took, longest)
    }

    /// Returns the number of writes for which the next batch waits, and the deadline; nil if it starts at once.
    ///
    /// - Parameters:
    ///   - queued: the number of writes in the queue.
    ///   - now: monotonic nanoseconds.
    func wait(queued: Int, now: UInt64) -> (expected: Int, deadline: UInt64)? {
        // With an empty queue, the committer has another task, or none.
        queued > 0 && queued < expected && now < deadline ? (expected, deadline) : nil
    }

    /// Returns the number of writes that make up a batch sent after others; nil if none is sent so.
    ///
    /// Few writers should share one transaction instead of being divided among two. With more writers, each batch gets
    /// three quarters of its share, so that it is sent while the previous one is committed.
    ///
    /// - Parameter batches: maximum number of batches in flight.
    func pipelinedWrites(batches: Int) -> Int? {
        batches > 1 && writers > Self.most && alone == 0 ? max(1, writers * 3 / (4 * batches)) : nil
    }

    /// Records that a batch could not be sent after another, or failed together with it: the next batches are sent
    /// alone.
    mutating func wasForNothing() { alone = Self.longestAlone }
}

/// The condition on which a committer waits for more writes of its namespace; true once they are there.
typealias CommitDelayCondition = Condition<Bool>

/// Signals a committer that waits for more writes. Any thread; never blocks.
protocol CommitDelaySignal: AnyObject, Sendable {
    func ring()
}

extension CommitDelayCondition: CommitDelaySignal where Value == Bool {
    func ring() { signal { $0 = true } }
}

extension WakeHandle: CommitDelaySignal {
    func ring() { wake() }
}
