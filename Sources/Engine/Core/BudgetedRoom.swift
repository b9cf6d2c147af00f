import LogStore
import Tree

/// What the trees' budget has for one tree that is not a namespace's. It counts for as long as the object lives.
final class BudgetedRoom: TreeRoom {
    private let budget: TreeBudget
    private let memory: NamespaceMemory
    private let goesOn: @Sendable () -> Bool

    /// A tree that takes less than this part of the budget is left as it is.
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

    func packer() -> TreePacker? {
        guard let pages = budget.pages, budget.isOver else { return nil }
        return TreePacker(pages, goesOn: goesOn)
    }
}
