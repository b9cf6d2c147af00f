import Runtime
import Synchronization

/// What all namespaces of a gateway take of memory together, by estimate. Any thread.
final class MemoryTotal: Sendable {
    private let sum = Atomic<Int>(0)
    let budget: Int

    /// - Parameter budget: what they may take, in bytes.
    init(budget: Int = .max) { self.budget = budget }

    var isOver: Bool { bytes > budget }

    /// Bytes.
    var bytes: Int { sum.load(ordering: .relaxed) }

    func add(_ count: Int) { sum.wrappingAdd(count, ordering: .relaxed) }
}

/// What one namespace takes of memory, by estimate: what was counted last, and what was written since. It is part of the
/// total for as long as the object lives. Any thread.
///
/// Commits add about what they bring and take off about what they replace, as counting takes a walk over the tree. Entries that
/// others wrote only add: there the estimate errs on the high side between counts. `isWorthCounting` says when it may be wrong by
/// much.
final class NamespaceMemory: Sendable {
    /// What a namespace takes besides its tree, rules and indexes: its objects, its names, its places in tables.
    static let bytesBesidesTree = 2_048
    /// What the row of a leaf takes when nothing is known of it but that it is there.
    static let bytesOfRow = 96
    /// What a child of a kept ordered index takes.
    static let bytesOfIndexed = 48
    /// Changes below this are not worth a count.
    private static let leastGrowth = 256 * 1_024

    private let total: MemoryTotal
    private let counted = Atomic<Int>(0)
    private let grown = Atomic<Int>(0)
    private let indexed = Atomic<Int>(0)
    private let countedRows = Atomic<Int>(0)
    private let isBeingCounted = Atomic<Bool>(false)
    /// What was counted when all that can be was in pages.
    private let packed = Atomic<Int>(0)
    private let isPacked = Atomic<Bool>(false)
    private let expected = Atomic<Int>(0)
    private let hasBeenPacked = Atomic<Bool>(false)
    private let packableFrom = Atomic<Milliseconds>(0)
    private let hasBeenKept = Atomic<Bool>(false)

    init(in total: MemoryTotal) {
        self.total = total
        counted.store(Self.bytesBesidesTree, ordering: .relaxed)
        total.add(Self.bytesBesidesTree)
    }

    deinit { total.add(-bytes) }

    var bytes: Int {
        counted.load(ordering: .relaxed) + grown.load(ordering: .relaxed) + indexed.load(ordering: .relaxed)
    }

    /// Something was written that takes about so many bytes more than what was there; fewer where that is negative.
    func grow(by count: Int) {
        grown.wrappingAdd(count, ordering: .relaxed)
        total.add(count)
    }

    /// An index was made or let go.
    func index(by count: Int) {
        indexed.wrappingAdd(count, ordering: .relaxed)
        total.add(count)
    }

    /// Whether all namespaces together take more than they may.
    var areAllOver: Bool { total.isOver }

    /// Whether the estimate may be wrong by more than an eighth. True once until the next count.
    ///
    /// - Parameter rows: rows of the tree now.
    func isWorthCounting(rows: Int) -> Bool {
        let known = counted.load(ordering: .relaxed)
        let isLarger = grown.load(ordering: .relaxed) > max(Self.leastGrowth, known / 8)
        let lost = (countedRows.load(ordering: .relaxed) - rows) * Self.bytesOfRow
        guard isLarger || lost > max(Self.leastGrowth, known / 8) else { return false }
        return !isBeingCounted.exchange(true, ordering: .relaxed)
    }

    /// About what there is in memory that can be put into pages.
    var packableBytes: Int { bytes - indexed.load(ordering: .relaxed) - packed.load(ordering: .relaxed) }

    /// All that can be is in pages: what the next count finds stays in memory.
    ///
    /// - Parameter expected: what is left in memory if all pages were taken over. What is more than that was changed meanwhile, and can be packed.
    func wasPacked(leaving expected: Int = .max) {
        self.expected.store(expected, ordering: .relaxed)
        notePages()
        isPacked.store(true, ordering: .releasing)
    }

    /// It has been read.
    ///
    /// - Parameters:
    ///   - isPacked: whether all that can be is in pages.
    ///   - hasPages: whether parts of it are.
    func wasRead(isPacked: Bool, hasPages: Bool) {
        if isPacked { wasPacked() } else if hasPages { notePages() }
    }

    /// Parts of it are in pages.
    func notePages() { hasBeenPacked.store(true, ordering: .relaxed) }

    /// It is not packed again before then, in monotonic milliseconds: half of the time at most goes into it.
    func mayBePacked(from time: Milliseconds) { packableFrom.store(time, ordering: .relaxed) }

    func mayBePacked(at time: Milliseconds) -> Bool { time >= packableFrom.load(ordering: .relaxed) }

    /// Notes that the namespace stays in memory although it takes more than the budget, and returns whether that is the first time.
    /// Two such namespaces that are written to take turns in staying.
    func isFirstKept() -> Bool { !hasBeenKept.exchange(true, ordering: .relaxed) }

    /// Whether it has been put into pages.
    var hasPages: Bool { hasBeenPacked.load(ordering: .relaxed) }

    /// About what a load that is under way has brought so far.
    func loading(bytes: Int) { replaceCount(Self.bytesBesidesTree + bytes) }

    /// Takes the result of a count.
    ///
    /// - Parameter count: counts the bytes of the tree and the rules as they are now, and their rows.
    func count(_ count: () -> (bytes: Int, rows: Int)) {
        isBeingCounted.store(false, ordering: .relaxed)
        // What is written meanwhile may be in the count or not: it stays in the estimate.
        let before = grown.load(ordering: .relaxed)
        // Before the tree is looked at: the packed one is there before this says so.
        let isPacked = isPacked.exchange(false, ordering: .acquiring)
        let (bytes, rows) = count()
        countedRows.store(rows, ordering: .relaxed)
        grown.wrappingSubtract(before, ordering: .relaxed)
        total.add(-before)
        replaceCount(Self.bytesBesidesTree + bytes)
        let most = isPacked ? expected.load(ordering: .relaxed) : packed.load(ordering: .relaxed)
        packed.store(min(bytes, most), ordering: .relaxed)
    }

    private func replaceCount(_ new: Int) {
        let old = counted.exchange(new, ordering: .relaxed)
        total.add(new - old)
    }
}
