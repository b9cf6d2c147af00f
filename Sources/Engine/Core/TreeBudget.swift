public import LogStore
import Runtime
import Tree

/// The memory budget for the trees of all engines of a program. Each engine evicts its own namespaces: first the engine
/// that has just loaded one, then the others if memory is still short. Any thread.
public final class TreeBudget: Sendable {
    let total: MemoryTotal
    /// The storage for parts of trees that do not fit into memory; nil without a page file.
    let pages: TreePages?
    private let members: MutexBox<[TreeMemory]>
    private let notice = MutexBox(MemoryNotice())

    /// - Parameters:
    ///   - bytes: the estimated bytes that trees may take together.
    ///   - pages: the file for parts of trees that do not fit; nil: they remain in memory.
    public init(bytes: Int, pages file: PageFile? = nil) {
        let total = MemoryTotal(budget: bytes)
        self.total = total
        let members = MutexBox<[TreeMemory]>([])
        self.members = members
        pages = file.map { file in
            TreePages(file, total) { for member in members.withLock({ $0 }) { member.recountPaged() } }
        }
    }

    func add(_ member: TreeMemory) { members.withLock { $0.append(member) } }

    func remove(_ member: TreeMemory) { members.withLock { $0.removeAll { $0 === member } } }

    /// The bytes of namespaces that are kept although each exceeds the budget.
    var keptBytes: Int {
        // Outside the lock: a thread that frees a tree may wait for it while it holds other locks.
        members.withLock { $0 }.reduce(0) { $0 + $1.keptBytes }
    }

    /// Whether trees exceed the budget.
    var isOver: Bool {
        let now = total.bytes
        return now > total.budget && now - keptBytes > total.budget
    }

    /// The sizes of recently used namespaces that are evicted, too, because trees exceed the budget by so much; empty
    /// otherwise.
    ///
    /// Large namespaces and the others have separate thresholds. Otherwise one namespace that grew while in use would
    /// evict all others, and each request would load them again.
    var sizesNotSpared: Range<Int> {
        let (large, leastLarge) = (total.bytesOfLarge, total.leastLargeBytes)
        let takesOthers = exceeds(total.bytes - large, budgets: Self.mostBudgets)
        let takesLarge = exceeds(large - keptBytes, budgets: Self.mostBudgetsOfLarge)
        return (takesOthers ? 0 : leastLarge)..<(takesLarge ? .max : leastLarge)
    }

    private func exceeds(_ bytes: Int, budgets: Int) -> Bool {
        let (most, isTooMuch) = total.budget.multipliedReportingOverflow(by: budgets)
        return !isTooMuch && bytes > most
    }

    /// Recently used namespaces that are not large stay in memory until all of that kind take this many budgets.
    private static let mostBudgets = 2
    /// Recently used large namespaces stay in memory until all of them take this many budgets. The next load puts them
    /// into pages if there is a page file.
    private static let mostBudgetsOfLarge = 4

    // MARK: Notices

    /// Returns whether a log line about too much memory is due. Returns true once for all engines that share the
    /// budget.
    func isNoticeDue() -> Bool {
        let bytes = total.bytes - keptBytes
        let now = Clock.monotonicMilliseconds
        return notice.withLock { $0.isDue(bytes: bytes, budget: total.budget, now: now) }
    }

    /// Whether that log line was written and trees have not shrunk far enough since.
    var isNoticeGiven: Bool { notice.withLock { $0.isGiven } }

    /// Returns a share of the budget for trees outside namespaces, such as the trees of feeds that lag.
    ///
    /// - Parameter shouldContinue: called before each page; returns whether the tree is still needed.
    public func room(while shouldContinue: @escaping @Sendable () -> Bool) -> any TreeMemoryBudget {
        BudgetShare(self, shouldContinue)
    }

    /// Makes all engines evict unused namespaces.
    func needRoom() {
        for member in members.withLock({ $0 }) { member.needRoom() }
    }

    /// Makes the other engines evict unused namespaces.
    func needRoom(besides asking: TreeMemory) {
        for member in members.withLock({ $0 }) where member !== asking { member.needRoom() }
    }
}

/// A share of the trees' budget for trees outside namespaces. They count for as long as the object lives.
final class BudgetShare: TreeMemoryBudget {
    private let budget: TreeBudget
    private let memory: NamespaceMemory
    private let shouldContinue: @Sendable () -> Bool

    /// Trees that take less than this fraction of the budget are not paged out.
    private static let leastShare = 16

    init(_ budget: TreeBudget, _ shouldContinue: @escaping @Sendable () -> Bool) {
        self.budget = budget
        self.shouldContinue = shouldContinue
        memory = NamespaceMemory(in: budget.total)
    }

    var leastBytes: Int { max(1, budget.total.budget / Self.leastShare) }

    func takes(bytes: Int) {
        memory.loading(bytes: bytes)
        if budget.isOver { budget.needRoom() }
    }

    var isOver: Bool { budget.isOver }

    func pager() -> TreePager? {
        guard let pages = budget.pages, isOver else { return nil }
        return TreePager(pages, shouldContinue: shouldContinue)
    }
}

/// Decides when the gateway logs that trees exceed their memory budget: once each time that they cross it. Pure.
struct MemoryNotice: Sendable {
    /// The time since when trees have exceeded the budget without a break, in monotonic milliseconds.
    private var overSince: Milliseconds?
    /// Whether the log line was written and trees have not shrunk far enough since.
    private(set) var isGiven = false

    /// Milliseconds for which trees may exceed the budget without a log line: the gateway may still find namespaces to
    /// evict.
    static let patience: Milliseconds = 2_000
    /// Trees have shrunk far enough once they take an eighth less than the budget. The gateway keeps trees in pages
    /// just below the budget, and those cross it again and again.
    static let margin = 8

    /// Records the bytes that trees take now.
    ///
    /// - Parameter now: Monotonic milliseconds.
    /// - Returns: Whether the log line is due.
    mutating func isDue(bytes: Int, budget: Int, now: Milliseconds) -> Bool {
        guard bytes > budget else {
            overSince = nil
            if bytes <= budget - budget / Self.margin { isGiven = false }
            return false
        }
        let since = overSince ?? now
        overSince = since
        guard !isGiven, now - since >= Self.patience else { return false }
        isGiven = true
        return true
    }
}
