import Postgres
import Runtime

/// Whether the next batch of a namespace waits for writes that are about to come. A value.
///
/// A transaction costs nearly the same for one write as for ten, and whoever has just been answered often writes again. Right
/// behind a batch the queue may be short only because its writers are being told. So the next batch waits until three quarters
/// of those are there again who were answered or waited when the last one ended, and not longer than that one took. Whoever
/// writes alone is not held up: one write was answered, none waited, and one is there. Nor are many: there are enough of them
/// for each batch, and requests had better be taken while a batch is synced than between two.
struct Gathering: Sendable {
    /// Where more take turns than this, nobody is waited for.
    private static let most = 16

    private let longest: UInt64
    private var expected = 0
    /// How many take turns, when the last batches ended: those who are just being told are in none of the counts.
    private var writers = 0
    /// So many batches are to end before one is sent behind another again.
    private var alone = 0
    private static let longestAlone = 16
    /// Monotonic nanoseconds.
    private var deadline: UInt64 = 0

    /// - Parameter longest: nanoseconds that no batch waits longer than; 0: none waits.
    init(longest: UInt64) { self.longest = longest }

    /// A batch has ended.
    ///
    /// - Parameters:
    ///   - answered: how many writes it had.
    ///   - waiting: how many are in the queue.
    ///   - underWay: how many are in batches that were sent behind it.
    ///   - took: nanoseconds, from its evaluation to its answers.
    ///   - now: monotonic nanoseconds.
    mutating func batchEnded(answered: Int, waiting: Int, underWay: Int = 0, took: UInt64, now: UInt64) {
        let count = answered + waiting + underWay
        writers = max(count, writers - max(1, writers / 8))
        alone = max(0, alone - 1)
        // Not for all of them: those who write seldom would hold up the others each time.
        expected = count <= Self.most ? count * 3 / 4 : 0
        deadline = now + min(took, longest)
    }

    /// For how many writes the next batch waits, and until when; nil where it begins at once.
    ///
    /// - Parameters:
    ///   - queued: how many are there.
    ///   - now: monotonic nanoseconds.
    func wait(queued: Int, now: UInt64) -> (expected: Int, deadline: UInt64)? {
        // With none there, the committer has come for something else, or has nothing to do.
        queued > 0 && queued < expected && now < deadline ? (expected, deadline) : nil
    }

    /// How many writes make a batch that is sent behind others; nil where none is.
    ///
    /// Where few take turns they had better share one transaction than be divided among two. Else each of the batches gets three
    /// quarters of its share, so that it is sent while the one before it is committed.
    ///
    /// - Parameter batches: how many are under way at most.
    func behind(batches: Int) -> Int? {
        batches > 1 && writers > Self.most && alone == 0 ? max(1, writers * 3 / (4 * batches)) : nil
    }

    /// A batch was to be sent behind another and could not be, or came to nothing with it: the next ones are not.
    mutating func wasForNothing() { alone = Self.longestAlone }
}

/// Where a committer waits for more writes of the namespace that it has; true: they are there.
typealias GatheringDesk = Condition<Bool>

/// How a committer that waits for more writes is told that they are there. Any thread; never blocks.
protocol GatheringBell: AnyObject, Sendable {
    func ring()
}

extension GatheringDesk: GatheringBell where Value == Bool {
    func ring() { signal { $0 = true } }
}

extension WakeHandle: GatheringBell {
    func ring() { wake() }
}
