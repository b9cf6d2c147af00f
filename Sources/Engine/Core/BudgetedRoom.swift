import LogStore
import Tree

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
