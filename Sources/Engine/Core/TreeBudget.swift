import Synchronization

/// What the trees of all engines of a program may take of memory. Each engine lets go of its own: the one whose namespace has just
/// been read begins, and where that is not enough, the others do. Any thread.
public final class TreeBudget: Sendable {
    let total: MemoryTotal
    private let members = Mutex<[TreeMemory]>([])

    /// - Parameter bytes: what they may take together, by estimate.
    public init(bytes: Int) { total = MemoryTotal(budget: bytes) }

    func add(_ member: TreeMemory) { members.withLock { $0.append(member) } }

    func remove(_ member: TreeMemory) { members.withLock { $0.removeAll { $0 === member } } }

    /// What the namespaces take that are kept although each takes more than the budget.
    var keptBytes: Int {
        members.withLock { members in members.reduce(0) { $0 + $1.keptBytes } }
    }

    /// Has the others let go of what they can.
    func needRoom(besides asking: TreeMemory) {
        for member in members.withLock({ $0 }) where member !== asking { member.needRoom() }
    }
}
