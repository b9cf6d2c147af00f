import Synchronization
import Tree

/// What all namespaces of a gateway take of memory together, by estimate. Any thread.
final class MemoryTotal: Sendable {
    private let sum = Atomic<Int>(0)
    private let large = Atomic<Int>(0)
    let budget: Int

    /// - Parameter budget: what they may take, in bytes.
    init(budget: Int = .max) { self.budget = budget }

    var isOver: Bool { bytes > budget }

    /// Bytes.
    var bytes: Int { sum.load(ordering: .relaxed) }

    func add(_ count: Int) { sum.wrappingAdd(count, ordering: .relaxed) }

    // MARK: Large namespaces

    /// A namespace that takes this part of the budget is large.
    private static let largeShare = 2

    /// The bytes from which a namespace is large.
    var leastLargeBytes: Int { budget / Self.largeShare }

    /// The bytes of large namespaces. A part of `bytes`.
    var bytesOfLarge: Int { large.load(ordering: .relaxed) }

    fileprivate func addLarge(_ count: Int) { large.wrappingAdd(count, ordering: .relaxed) }
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
    /// The bytes that the first count found after the tree was loaded into pages. 0 if the tree was loaded otherwise: how much of it pages would
    /// leave in memory is not known then.
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

    /// Something was written that takes about so many bytes more than what was there; fewer where that is negative.
    func grow(by count: Int) {
        grown.wrappingAdd(count, ordering: .relaxed)
        total.add(count)
        noteSize()
    }

    /// An index was made or let go.
    func index(by count: Int) {
        indexed.wrappingAdd(count, ordering: .relaxed)
        total.add(count)
        noteSize()
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

    /// About what it would take if it were read again into pages: what of it was in memory when it was read into pages last, and its indexes.
    var bytesWhenRead: Int {
        let bytes = counted.load(ordering: .relaxed) + grown.load(ordering: .relaxed)
        return min(bytes, read.load(ordering: .relaxed)) + indexed.load(ordering: .relaxed)
    }

    /// The tree has been read, and is there.
    ///
    /// - Parameter isInPages: Whether all of it is in pages that can be: then the next count finds what has to be in memory.
    func wasRead(isInPages: Bool) {
        read.store(0, ordering: .relaxed)
        isReadIntoPages.store(isInPages, ordering: .releasing)
    }

    /// Parts of it are in pages.
    func notePages() { isInPages.store(true, ordering: .relaxed) }

    var hasPages: Bool { isInPages.load(ordering: .relaxed) }

    /// Notes that the namespace stays in memory although it takes more than the budget, and returns whether that is the first time.
    /// Two such namespaces that are written to take turns in staying.
    func isFirstKept() -> Bool { !hasBeenKept.exchange(true, ordering: .relaxed) }

    /// About what a load that is under way has brought so far.
    func loading(bytes: Int) { replaceCount(Self.bytesBesidesTree + bytes) }

    /// Takes the result of a count.
    ///
    /// - Parameter count: counts the bytes of the tree and the rules as they are now, and their rows.
    func count(_ count: () -> (bytes: Int, rows: Int)) {
        isBeingCounted.store(false, ordering: .relaxed)
        // What is written meanwhile may be in the count or not: it stays in the estimate.
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

    /// Updates this namespace's part of the total of large namespaces. Eviction compares the same number. If two threads race, the older value
    /// may be stored last; the next change corrects it.
    private func noteSize() {
        let now = bytes
        let part = now >= total.leastLargeBytes ? now : 0
        guard part != large.load(ordering: .relaxed) else { return }
        total.addLarge(part - large.exchange(part, ordering: .relaxed))
    }
}
