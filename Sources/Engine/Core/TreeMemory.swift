import LogStore
import Runtime
import Synchronization
import Tree

/// Keeps the memory of trees within the budget: counts trees that may have changed much, and evicts unused namespaces,
/// least recently used first. Any thread may use it; counting has a thread of its own.
///
/// A namespace that was used in the last seconds counts as in use: clients that send one request after another hold no
/// reference in between, and loading the namespace again may take seconds. If the namespaces that each take less than
/// half of the budget together take more than twice the budget, the least recently used of them are evicted
/// nevertheless. Larger namespaces are evicted if they take more than four times the budget.
///
/// A tree that is loaded while memory is short is paged out to the page file, if there is one (`settle`). A tree that
/// grows later remains in memory while it is in use; once evicted, it is loaded again in pages. Without a page file, a
/// namespace that exceeds the whole budget would be loaded again and again if it were evicted. The last such namespace
/// is kept, and does not count towards the budget of the others.
final class TreeMemory: Sendable {
    private struct State: Sendable {
        var toCount: [LiveNamespace] = []
        var needsRoom = false
        var countsPaged = false
        var isStopped = false
    }

    private let shared: TreeBudget
    let namespaces: NamespaceTable
    private let metrics: EngineMetrics
    let logger: Logger
    /// How long a namespace counts as in use after each use.
    private let recentMilliseconds: Milliseconds
    private let state = Condition(State())
    /// Whether a thread has requested memory and the memory thread has not checked since.
    private let isAsked = Atomic<Bool>(false)

    /// Maximum number of namespaces that a loader checks for eviction after a load; the memory thread checks the rest.
    private static let mostLookedAt = 64
    /// How often the memory thread checks for unused namespaces while trees exceed the budget.
    private static let pollMilliseconds: Milliseconds = 500

    init(
        _ shared: TreeBudget, _ namespaces: NamespaceTable, _ metrics: EngineMetrics, _ logger: Logger,
        recentMilliseconds: Milliseconds
    ) {
        self.recentMilliseconds = recentMilliseconds
        self.shared = shared
        self.namespaces = namespaces
        self.metrics = metrics
        self.logger = logger
        shared.add(self)
    }

    var budget: Int { total.budget }
    var total: MemoryTotal { shared.total }
    var pages: TreePages? { shared.pages }
    /// The bytes of the namespace that is kept although it exceeds the budget.
    var keptBytes: Int { namespaces.keptMemory.map(fixedBytes) ?? 0 }

    /// The bytes that a namespace would take in memory after it left and was loaded again. The part that would go to
    /// the disk is no reason to keep the namespace.
    private func fixedBytes(of memory: NamespaceMemory) -> Int {
        pages?.hasRoom == true ? memory.bytesWhenRead : memory.bytes
    }

    /// Whether trees exceed the budget.
    var isOver: Bool { shared.isOver }

    /// Requests a count of a namespace's memory.
    func recount(_ namespace: LiveNamespace) {
        state.signal { state in
            if !state.isStopped { state.toCount.append(namespace) }
        }
    }

    /// Requests a count of all namespaces with pages, after contents of pages have become parts of their trees.
    func recountPaged() {
        state.signal { $0.countsPaged = true }
    }

    /// Whether a lengthy operation is still needed; false once the engine stops.
    var shouldContinue: Bool { !state.withLock { $0.isStopped } }

    /// Handles a namespace that has been loaded.
    func loaded(_ namespace: LiveNamespace) {
        let bytes = namespace.memory.bytes
        guard fixedBytes(of: namespace.memory) > budget, namespaces.keep(namespace), namespace.memory.isFirstKept()
        else { return }
        logger.warning(
            "a namespace takes more memory than --tree-memory and stays in memory",
            [("namespace", namespace.name), ("bytes", "\(bytes)"), ("budget", "\(budget)")])
    }

    /// Evicts unused namespaces while trees exceed the budget. Does nothing while the database is away, because an
    /// evicted namespace could not be loaded again.
    func makeRoom(_ health: DatabaseHealth) {
        evict(health, mostLookedAt: Self.mostLookedAt)
        if isOver { needRoom() }
    }

    /// Makes the memory thread evict unused namespaces.
    func needRoom() {
        if isAsked.exchange(true, ordering: .relaxed) { return }
        state.signal { $0.needsRoom = true }
    }

    private func evict(_ health: DatabaseHealth, mostLookedAt: Int) {
        var left = mostLookedAt
        var spared: Int?
        pages?.makeRoom()
        if isOver { endKeeping() }
        while isOver, health.isUp, left > 0 {
            // A few at a time: requests for a namespace wait for the table meanwhile.
            let namespace = namespaces.takeUnused(
                most: min(left, Self.mostLookedAt), sparing: recentMilliseconds,
                notSparing: shared.sizesNotSpared, after: &spared)
            guard let namespace else {
                left -= Self.mostLookedAt
                continue
            }
            metrics.evictions.add()
            logger.debug("namespace evicted", [("namespace", namespace.name), ("bytes", "\(namespace.memory.bytes)")])
        }
    }

    /// Allows the eviction of the kept namespace once it would fit after the next load: the page file has space again,
    /// or the namespace has become smaller.
    private func endKeeping() {
        guard let memory = namespaces.keptMemory, fixedBytes(of: memory) <= budget else { return }
        namespaces.endKeeping(memory)
    }

    // MARK: The thread

    /// Counts trees and evicts unused namespaces until the engine stops.
    func run(_ health: DatabaseHealth) {
        while countNext(isHurried: isOver) {
            isAsked.store(false, ordering: .relaxed)
            evict(health, mostLookedAt: max(Self.mostLookedAt, namespaces.count))
            // The unused namespaces may belong to the engine of another database. Each pass asks again: an engine that
            // evicted enough after the last request waits again.
            if isOver { shared.needRoom(besides: self) }
            if shared.isNoticeDue() {
                logger.warning(
                    "the trees in use take more memory than --tree-memory",
                    [("bytes", "\(total.bytes)"), ("budget", "\(budget)"), ("namespaces", "\(namespaces.count)")])
            }
        }
    }

    /// The pending counts.
    private struct Counting: Sendable {
        var namespaces: [LiveNamespace] = []
        /// Whether all namespaces with pages are counted, too.
        var countsPaged = false
    }

    /// Waits for work and executes the pending counts. Returns false when the engine stops.
    private func countNext(isHurried: Bool) -> Bool {
        // Once the warning was logged, the thread also checks when trees fit again.
        let looksAgain = isHurried || shared.isNoticeGiven
        let next = state.wait(milliseconds: looksAgain ? Self.pollMilliseconds : nil) { state -> Counting? in
            if state.isStopped { return Counting() }
            // A hurried thread checks again soon anyway.
            guard !state.toCount.isEmpty || state.countsPaged || (state.needsRoom && !isHurried) else { return nil }
            state.needsRoom = false
            defer {
                state.toCount = []
                state.countsPaged = false
            }
            return Counting(namespaces: state.toCount, countsPaged: state.countsPaged)
        }
        // Outside the lock: a thread that frees a tree may wait for it while it holds other locks.
        for namespace in next.map(expanded) ?? [] {
            if !shouldContinue { break }
            namespace.countMemory()
            loaded(namespace)
        }
        return shouldContinue
    }

    private func expanded(_ counting: Counting) -> [LiveNamespace] {
        guard counting.countsPaged else { return counting.namespaces }
        // Before the count: bytes that leave pages meanwhile count twice rather than not at all.
        pages?.settleLoose()
        return counting.namespaces
            + namespaces.all.filter { one in
                one.memory.hasPages && !counting.namespaces.contains { $0 === one }
            }
    }

    func stop() {
        shared.remove(self)
        let left = state.broadcast { state -> [LiveNamespace] in
            state.isStopped = true
            defer { state.toCount = [] }
            return state.toCount
        }
        // Freed outside the lock: a thread that frees a tree may wait for it.
        withExtendedLifetime(left) {}
    }
}

/// How trees that do not fit into memory are paged out: while they are loaded, and while an import is applied to them.
extension TreeMemory {
    /// A tree that takes less than this fraction of the budget is loaded into memory completely.
    private static let leastShare = 16

    /// Decides whether the rest of a tree that is being loaded remains in memory or is paged out.
    ///
    /// - Parameter pagedAt: the bytes in memory when paging out last began; nil if it has not begun.
    func step(_ progress: LogConnection.LoadProgress, pagedAt: inout Int?) -> LogConnection.LoadStep {
        guard !progress.isPagingOut, let pages, isOver else { return .proceed }
        // If the page file was full, paging out is tried again once the tree has grown.
        guard progress.heapBytes - (pagedAt ?? 0) > budget / Self.leastShare else { return .proceed }
        pagedAt = progress.heapBytes
        return .pageOut(TreePager(pages) { [self] in shouldContinue })
    }

    /// Counts a loaded tree, and pages it out if trees exceed the budget. During the load, the size was an estimate
    /// that did not include the last rows.
    ///
    /// - Parameters:
    ///   - memory: receives the count.
    ///   - pagedAt: as for `step`.
    /// - Returns: The tree, and whether everything that pages can hold was paged out.
    func settle(
        _ loaded: LogConnection.LoadedTree, _ rules: RulesVersion, _ memory: NamespaceMemory, pagedAt: inout Int?,
        _ health: DatabaseHealth
    ) -> (root: Node, isInPages: Bool) {
        memory.wasRead(isInPages: loaded.isInPages)
        memory.count(loaded.root, rules)
        guard let pages, memory.bytes > budget / Self.leastShare else { return (loaded.root, loaded.isInPages) }
        makeRoom(health)
        guard isOver, pages.hasRoom else { return (loaded.root, loaded.isInPages) }
        pagedAt = memory.bytes
        var pager = TreePager(pages) { [self] in shouldContinue }
        let root = pager.pageOut(loaded.root)
        memory.wasRead(isInPages: !pager.hasEnded)
        memory.count(root, rules)
        return (root, !pager.hasEnded)
    }

    /// Pages a tree out while an import is applied to it, if trees exceed the budget.
    ///
    /// - Parameter grown: The estimated bytes added since the tree was last paged out, which no total includes. Set to
    ///   0 afterwards.
    func pageOut(_ application: inout BulkApplication, grown: inout Int, of memory: NamespaceMemory) {
        guard let pages, grown > budget / Self.leastShare, total.bytes + grown > budget else { return }
        var pager = TreePager(pages) { [self] in shouldContinue }
        application.pageOut(with: &pager)
        memory.notePages()
        grown = 0
    }
}
