public import LogStore
import Runtime
import Tree

/// What the trees of all engines of a program may take of memory. Each engine lets go of its own: the one whose namespace has just
/// been read begins, and where that is not enough, the others do. Any thread.
public final class TreeBudget: Sendable {
    let total: MemoryTotal
    /// Where parts of trees go that are too large for memory; nil where there is no such place.
    let pages: TreePages?
    private let members: MutexBox<[TreeMemory]>
    private let notice = MutexBox(MemoryNotice())

    /// - Parameters:
    ///   - bytes: what they may take together, by estimate.
    ///   - pages: where parts of trees go that are too large for that; nil: they stay in memory.
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

    /// What the namespaces take that are kept although each takes more than the budget.
    var keptBytes: Int {
        // Outside the lock, which who frees a tree may wait for, whatever locks he has.
        members.withLock { $0 }.reduce(0) { $0 + $1.keptBytes }
    }

    /// Whether trees take more than they may.
    var isOver: Bool {
        let now = total.bytes
        return now > total.budget && now - keptBytes > total.budget
    }

    /// The sizes of recently used namespaces that are evicted, too, because trees take so much more than they may; empty while they do not.
    ///
    /// Large namespaces and the others have separate thresholds. Otherwise one namespace that grew while in use would evict all others, and each
    /// request would load them again.
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
    /// Recently used large namespaces stay in memory until all of them take this many budgets. The next load puts them into pages if there is
    /// a page file.
    private static let mostBudgetsOfLarge = 4

    // MARK: Notices

    /// Returns whether a log line about too much memory is due. Returns true once for all engines that share the budget.
    func isNoticeDue() -> Bool {
        let bytes = total.bytes - keptBytes
        let now = Clock.monotonicMilliseconds
        return notice.withLock { $0.isDue(bytes: bytes, budget: total.budget, now: now) }
    }

    /// Whether that log line was written and trees have not shrunk far enough since.
    var isNoticeGiven: Bool { notice.withLock { $0.isGiven } }

    /// Room for trees that are made beside those of the namespaces, as for feeds that are behind.
    ///
    /// - Parameter goesOn: asked before each page whether there is still use for it.
    public func room(while goesOn: @escaping @Sendable () -> Bool) -> any TreeRoom { BudgetedRoom(self, goesOn) }

    /// Has all let go of what they can.
    func needRoom() {
        for member in members.withLock({ $0 }) { member.needRoom() }
    }

    /// Has the others let go of what they can.
    func needRoom(besides asking: TreeMemory) {
        for member in members.withLock({ $0 }) where member !== asking { member.needRoom() }
    }
}

/// What the trees' budget has for trees that are no namespace's. They count for as long as the object lives.
final class BudgetedRoom: TreeRoom {
    private let budget: TreeBudget
    private let memory: NamespaceMemory
    private let goesOn: @Sendable () -> Bool

    /// Trees that take less than this part of the budget are left as they are.
    private static let leastShare = 16

    init(_ budget: TreeBudget, _ goesOn: @escaping @Sendable () -> Bool) {
        self.budget = budget
        self.goesOn = goesOn
        memory = NamespaceMemory(in: budget.total)
    }

    var leastBytes: Int { max(1, budget.total.budget / Self.leastShare) }

    func takes(bytes: Int) {
        memory.loading(bytes: bytes)
        if budget.isOver { budget.needRoom() }
    }

    var isOver: Bool { budget.isOver }

    func packer() -> TreePacker? {
        guard let pages = budget.pages, isOver else { return nil }
        return TreePacker(pages, goesOn: goesOn)
    }
}

/// Decides when the log says that trees take more memory than their budget: once for each time that they cross it. Pure.
struct MemoryNotice: Sendable {
    /// Since when trees have taken more, without a break, in monotonic milliseconds.
    private var overSince: Milliseconds?
    /// Whether the log line was written and trees have not shrunk far enough since.
    private(set) var isGiven = false

    /// Milliseconds for which trees may take too much without a log line: the gateway may still find namespaces to evict.
    static let patience: Milliseconds = 2_000
    /// Trees have shrunk far enough once they take an eighth less than the budget. The gateway keeps trees in pages just below
    /// the budget, and those cross it again and again.
    static let margin = 8

    /// Records what trees take now.
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
