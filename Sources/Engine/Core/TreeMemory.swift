import LogStore
import Runtime
import Synchronization
import Tree

/// Keeps what the trees take of memory within a budget: counts what may have changed by much, and lets go of namespaces that
/// nobody uses, the one that was not used for the longest time first. Any thread; the counting has one of its own.
///
/// A namespace that was used in the last seconds counts as in use: clients that come again and again by requests have no
/// reference to it in between, and reading it again may take seconds. Where those that take less than half of the budget together take
/// more than twice the budget, the least recently used of them go all the same; so do larger ones where these take more than four times the
/// budget.
///
/// A tree that is read while memory is short goes to the disk in pages, where there is a page file (`settle`). One that
/// grows later stays in memory while it is in use; let go, it comes back in pages. Without a page file, a namespace that takes more than
/// the whole budget would be read again and again if it were let go. The one of that kind that came last stays, and the others have the
/// budget beside it.
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
    /// Somebody has asked for room, and the thread has not looked since.
    private let isAsked = Atomic<Bool>(false)

    /// How many namespaces somebody who has just loaded one looks at in order to find unused ones; the rest is left to the
    /// thread.
    private static let mostLookedAt = 64
    /// How often it is looked whether something can be let go, while what is there is too much.
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
    /// What the namespace takes that is kept although it takes more than the budget.
    var keptBytes: Int { namespaces.keptMemory.map(fixedBytes) ?? 0 }

    /// The bytes that a namespace would take in memory after it left and was loaded again. The part that would go to the disk is no reason to
    /// keep the namespace.
    private func fixedBytes(of memory: NamespaceMemory) -> Int {
        pages?.hasRoom == true ? memory.bytesWhenRead : memory.bytes
    }

    /// Whether the trees take more than they may.
    var isOver: Bool { shared.isOver }

    /// Has it counted what a namespace takes.
    func recount(_ namespace: LiveNamespace) {
        state.signal { state in
            if !state.isStopped { state.toCount.append(namespace) }
        }
    }

    /// Has all counted that have pages: what was in pages is in their trees now.
    func recountPaged() {
        state.signal { $0.countsPaged = true }
    }

    /// Whether what takes long is still worth its while.
    var goesOn: Bool { !state.withLock { $0.isStopped } }

    /// A namespace has been read.
    func loaded(_ namespace: LiveNamespace) {
        let bytes = namespace.memory.bytes
        guard fixedBytes(of: namespace.memory) > budget, namespaces.keep(namespace), namespace.memory.isFirstKept()
        else { return }
        logger.warning(
            "a namespace takes more memory than --tree-memory, and is kept all the same",
            [("namespace", namespace.name), ("bytes", "\(bytes)"), ("budget", "\(budget)")])
    }

    /// Lets go of what it can be, as long as there is too much. Nothing while the database is away: it could not come back.
    func makeRoom(_ health: DatabaseHealth) {
        letGo(health, mostLookedAt: Self.mostLookedAt)
        if isOver { needRoom() }
    }

    /// Has the thread let go of what it can.
    func needRoom() {
        if isAsked.exchange(true, ordering: .relaxed) { return }
        state.signal { $0.needsRoom = true }
    }

    private func letGo(_ health: DatabaseHealth, mostLookedAt: Int) {
        var left = mostLookedAt
        var spared: Int?
        pages?.makeRoom()
        if isOver { endKeeping() }
        while isOver, health.isUp, left > 0 {
            // A few at a time: whoever asks for a namespace waits for the table meanwhile.
            let namespace = namespaces.takeUnused(
                most: min(left, Self.mostLookedAt), sparing: recentMilliseconds,
                notSparing: shared.sizesNotSpared, after: &spared)
            guard let namespace else {
                left -= Self.mostLookedAt
                continue
            }
            metrics.evictions.add()
            logger.debug("namespace let go", [("namespace", namespace.name), ("bytes", "\(namespace.memory.bytes)")])
        }
    }

    /// Lets the kept namespace leave like any other once it would fit after the next load: the page file has room again, or the namespace has
    /// become smaller.
    private func endKeeping() {
        guard let memory = namespaces.keptMemory, fixedBytes(of: memory) <= budget else { return }
        namespaces.endKeeping(memory)
    }

    // MARK: The thread

    /// Counts, and looks around while there is too much.
    func run(_ health: DatabaseHealth) {
        while countNext(isHurried: isOver) {
            isAsked.store(false, ordering: .relaxed)
            letGo(health, mostLookedAt: max(Self.mostLookedAt, namespaces.count))
            // What is unused may be another database's. Each look asks: who gave enough for the last one waits again.
            if isOver { shared.needRoom(besides: self) }
            if shared.isNoticeDue() {
                logger.warning(
                    "the trees in use take more memory than --tree-memory",
                    [("bytes", "\(total.bytes)"), ("budget", "\(budget)"), ("namespaces", "\(namespaces.count)")])
            }
        }
    }

    /// What there is to count.
    private struct Counting: Sendable {
        var namespaces: [LiveNamespace] = []
        /// Those that have pages, too.
        var countsPaged = false
    }

    /// Waits for something to do, and counts what there is to count. False when the engine stops.
    private func countNext(isHurried: Bool) -> Bool {
        // Once operators were told, also to find out when trees take less again.
        let looksAgain = isHurried || shared.isNoticeGiven
        let next = state.wait(milliseconds: looksAgain ? Self.pollMilliseconds : nil) { state -> Counting? in
            if state.isStopped { return Counting() }
            // Whoever is hurried looks again soon.
            guard !state.toCount.isEmpty || state.countsPaged || (state.needsRoom && !isHurried) else { return nil }
            state.needsRoom = false
            defer {
                state.toCount = []
                state.countsPaged = false
            }
            return Counting(namespaces: state.toCount, countsPaged: state.countsPaged)
        }
        // Outside the lock: who frees a tree may wait for it, whatever locks he has.
        for namespace in next.map(expanded) ?? [] {
            if !goesOn { break }
            namespace.countMemory()
            loaded(namespace)
        }
        return goesOn
    }

    private func expanded(_ counting: Counting) -> [LiveNamespace] {
        guard counting.countsPaged else { return counting.namespaces }
        // Before they are counted: what comes loose meanwhile counts twice rather than not at all.
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
        // Freed outside the lock, which who frees a tree may wait for.
        withExtendedLifetime(left) {}
    }
}

/// How trees that are too large for memory get into pages: while they are loaded, and while an import is applied to them.
extension TreeMemory {
    /// A tree that takes less than this part of the budget is read into memory whole.
    private static let leastShare = 16

    /// Decides whether the rest of a tree that is being read stays in memory or goes into pages.
    ///
    /// - Parameter packedAt: what was in memory when it began to go into pages last; nil where it hasn't.
    func step(_ progress: LogConnection.LoadProgress, packedAt: inout Int?) -> LogConnection.LoadStep {
        guard !progress.isPacking, let pages, isOver else { return .goOn }
        // Where there was no room in the pages, it is tried again when there is more to put there.
        guard progress.heapBytes - (packedAt ?? 0) > budget / Self.leastShare else { return .goOn }
        packedAt = progress.heapBytes
        return .pack(TreePacker(pages) { [self] in goesOn })
    }

    /// Counts a tree that has been read, and puts it into pages if trees exceed the budget. During the read the size was an estimate that did
    /// not include the last rows.
    ///
    /// - Parameters:
    ///   - memory: takes the count.
    ///   - packedAt: as for `step`.
    /// - Returns: The tree, and whether the packer put everything into pages that pages can hold.
    func settle(
        _ loaded: LogConnection.LoadedTree, _ rules: RulesVersion, _ memory: NamespaceMemory, packedAt: inout Int?,
        _ health: DatabaseHealth
    ) -> (root: Node, isInPages: Bool) {
        memory.wasRead(isInPages: loaded.isInPages)
        memory.count(loaded.root, rules)
        guard let pages, memory.bytes > budget / Self.leastShare else { return (loaded.root, loaded.isInPages) }
        makeRoom(health)
        guard isOver, pages.hasRoom else { return (loaded.root, loaded.isInPages) }
        packedAt = memory.bytes
        var packer = TreePacker(pages) { [self] in goesOn }
        let root = packer.pack(loaded.root)
        memory.wasRead(isInPages: !packer.hasEnded)
        memory.count(root, rules)
        return (root, !packer.hasEnded)
    }

    /// Puts a tree into pages while an import is applied to it, if trees exceed the budget.
    ///
    /// - Parameter grown: The estimated bytes added since the last packing, which no total includes. Set to 0 after packing.
    func pack(_ application: inout BulkApplication, grown: inout Int, of memory: NamespaceMemory) {
        guard let pages, grown > budget / Self.leastShare, total.bytes + grown > budget else { return }
        var packer = TreePacker(pages) { [self] in goesOn }
        application.pack(with: &packer)
        memory.notePages()
        grown = 0
    }
}
