import Synchronization
import Tree

/// The estimated memory of all namespaces of a gateway together. Any thread.
final class MemoryTotal: Sendable {
    private let sum = Atomic<Int>(0)
    private let large = Atomic<Int>(0)
    let budget: Int

    /// - Parameter budget: the bytes that they may take.
    init(budget: Int = .max) { self.budget = budget }

    var isOver: Bool { bytes > budget }

    var bytes: Int { sum.load(ordering: .relaxed) }

    func add(_ count: Int) { sum.wrappingAdd(count, ordering: .relaxed) }

    // MARK: Large namespaces

    /// A namespace that takes this fraction of the budget is large.
    private static let largeShare = 2

    /// The bytes from which a namespace is large.
    var leastLargeBytes: Int { budget / Self.largeShare }

    /// The bytes of large namespaces. A part of `bytes`.
    var bytesOfLarge: Int { large.load(ordering: .relaxed) }

    fileprivate func addLarge(_ count: Int) { large.wrappingAdd(count, ordering: .relaxed) }
}

/// The estimated memory of one namespace: the last count plus the changes since. It is part of the total for as long as
/// the object lives. Any thread.
///
/// Because counting walks over the tree, commits only add an estimate of new data and subtract one of replaced data.
/// Entries of other gateways only add, so the estimate errs on the high side between counts. `isWorthCounting` returns
/// whether it may be wrong by much.
final class NamespaceMemory: Sendable {
    /// Bytes of a namespace besides its tree, rules and indexes: its objects, its names and its table slots.
    static let bytesBesidesTree = 2_048
    /// Bytes of the row of a leaf whose value is unknown.
    static let bytesOfRow = 96
    /// Bytes of a child in a cached ordered index.
    static let bytesOfIndexed = 48
    /// Changes below this are not worth a count.
    private static let leastGrowth = 256 * 1_024

    private let total: MemoryTotal
    private let counted = Atomic<Int>(0)
    private let grown = Atomic<Int>(0)
    private let indexed = Atomic<Int>(0)
    private let countedRows = Atomic<Int>(0)
    private let isBeingCounted = Atomic<Bool>(false)
    /// The bytes that the first count found after the tree was loaded into pages. 0 if the tree was loaded otherwise:
    /// how much of it pages would leave in memory is not known then.
    private let read = Atomic<Int>(0)
    private let isReadIntoPages = Atomic<Bool>(false)
    private let isInPages = Atomic<Bool>(false)
    private let hasBeenKept = Atomic<Bool>(false)
    /// The bytes that this namespace contributes to the total of large namespaces.
    private let large = Atomic<Int>(0)

    init(in total: MemoryTotal) {
        self.total = total
        counted.store(Self.bytesBesidesTree, ordering: .relaxed)
        total.add(Self.bytesBesidesTree)
    }

    deinit {
        total.add(-bytes)
        total.addLarge(-large.load(ordering: .relaxed))
    }

    var bytes: Int {
        counted.load(ordering: .relaxed) + grown.load(ordering: .relaxed) + indexed.load(ordering: .relaxed)
    }

    /// Adds an estimate of the bytes by which a write changes memory, which may be negative.
    func grow(by count: Int) {
        grown.wrappingAdd(count, ordering: .relaxed)
        total.add(count)
        noteSize()
    }

    /// Adds the change of bytes when an index is built or removed.
    func index(by count: Int) {
        indexed.wrappingAdd(count, ordering: .relaxed)
        total.add(count)
        noteSize()
    }

    /// Whether all namespaces together exceed the budget.
    var areAllOver: Bool { total.isOver }

    /// Whether the estimate may be wrong by more than an eighth. Returns true once until the next count.
    ///
    /// - Parameter rows: the present number of rows of the tree.
    func isWorthCounting(rows: Int) -> Bool {
        let known = counted.load(ordering: .relaxed)
        let isLarger = grown.load(ordering: .relaxed) > max(Self.leastGrowth, known / 8)
        let lost = (countedRows.load(ordering: .relaxed) - rows) * Self.bytesOfRow
        guard isLarger || lost > max(Self.leastGrowth, known / 8) else { return false }
        return !isBeingCounted.exchange(true, ordering: .relaxed)
    }

    /// The estimated bytes after loading the namespace into pages again: the bytes that were in memory after the last
    /// such load, and its indexes.
    var bytesWhenRead: Int {
        let bytes = counted.load(ordering: .relaxed) + grown.load(ordering: .relaxed)
        return min(bytes, read.load(ordering: .relaxed)) + indexed.load(ordering: .relaxed)
    }

    /// Records that the tree has been loaded and published.
    ///
    /// - Parameter isInPages: Whether everything that pages can hold was paged out. Then the next count finds the bytes
    ///   that must be in memory.
    func wasRead(isInPages: Bool) {
        read.store(0, ordering: .relaxed)
        isReadIntoPages.store(isInPages, ordering: .releasing)
    }

    /// Records that parts of the tree are in pages.
    func notePages() { isInPages.store(true, ordering: .relaxed) }

    var hasPages: Bool { isInPages.load(ordering: .relaxed) }

    /// Notes that the namespace stays in memory although it takes more than the budget, and returns whether that is the
    /// first time. Two such namespaces that are written to take turns in staying.
    func isFirstKept() -> Bool { !hasBeenKept.exchange(true, ordering: .relaxed) }

    /// Sets the estimated bytes of a load in progress.
    func loading(bytes: Int) { replaceCount(Self.bytesBesidesTree + bytes) }

    /// Sets the estimate to the result of a count.
    ///
    /// - Parameter count: counts the bytes of the present tree and rules, and the tree's rows.
    func count(_ count: () -> (bytes: Int, rows: Int)) {
        isBeingCounted.store(false, ordering: .relaxed)
        // Writes during the count may be included in it or not, so they remain in the estimate.
        let before = grown.load(ordering: .relaxed)
        // Read the flag before the tree: `wasRead` sets it after the tree is published.
        let isRead = isReadIntoPages.exchange(false, ordering: .acquiring)
        let (bytes, rows) = count()
        countedRows.store(rows, ordering: .relaxed)
        grown.wrappingSubtract(before, ordering: .relaxed)
        total.add(-before)
        replaceCount(Self.bytesBesidesTree + bytes)
        if isRead { read.store(Self.bytesBesidesTree + bytes, ordering: .relaxed) }
    }

    /// Counts a tree and its rules. O(size of the tree).
    func count(_ root: Node, _ rules: RulesVersion) {
        count { (root.heapBytesOfTree + rules.heapBytes, root.rowCount) }
    }

    private func replaceCount(_ new: Int) {
        let old = counted.exchange(new, ordering: .relaxed)
        total.add(new - old)
        noteSize()
    }

    /// Updates this namespace's part of the total of large namespaces. Eviction compares the same number.
    /// If two threads race, the older value may be stored last; the next change corrects it.
    private func noteSize() {
        let now = bytes
        let part = now >= total.leastLargeBytes ? now : 0
        guard part != large.load(ordering: .relaxed) else { return }
        total.addLarge(part - large.exchange(part, ordering: .relaxed))
    }
}
