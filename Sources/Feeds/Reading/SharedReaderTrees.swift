import LogStore
import Runtime
import Tree

/// Counts the memory that the trees of a namespace's shared readers use in addition to the gateway's own tree, and chooses the
/// readers that release their trees if memory is short.
///
/// A node that several trees share counts once, and a node of the gateway's own tree does not count. Readers at the head cost
/// nothing. Counting takes a small part of the time.
struct SharedReaderTrees {
    /// A shared reader with trees of its own.
    struct Reader {
        /// The index of the reader among the `readings` of the `NamespaceReader`.
        let index: Int
        let trees: [Node]
        /// Whether the reader can do without its trees for now.
        let isIdle: Bool
    }

    private var room: (any TreeMemoryBudget)?
    private var nextLook: Milliseconds = 0
    /// How many idle readers have been counted individually, so that each gets its turn.
    private var counted = 0

    private static let pause: Milliseconds = 2_000
    /// The minimum interval between two counts, as a multiple of the duration of a count.
    private static let restFactor: Milliseconds = 16
    /// The maximum number of idle readers that one count examines individually, each by a walk over its trees.
    private static let mostCounted = 16

    /// Makes the next count happen at once, because the trees may have grown considerably.
    mutating func hurry() { nextLook = 0 }

    /// Counts the memory of the trees, if a count is due.
    ///
    /// - Parameters:
    ///   - readers: The readers whose trees are not the gateway's.
    ///   - gateway: The gateway's own tree, or null if unknown.
    ///   - now: The time in monotonic milliseconds.
    ///   - make: Creates the memory budget of the trees.
    /// - Returns: The `index` of each idle reader that should release its trees because the budget is exceeded, in the order of
    ///   `readers`. These trees no longer count.
    ///   If many readers are idle, each count considers only some of them.
    mutating func look(
        _ readers: () -> [Reader], gateway: () -> Node, now: () -> Milliseconds = { Clock.monotonicMilliseconds },
        in make: () -> any TreeMemoryBudget
    ) -> [Int] {
        let start = now()
        guard start >= nextLook else { return [] }
        defer {
            let end = now()
            nextLook = end + max(Self.pause, Self.restFactor * (end - start))
        }
        // Trees without branches use almost no memory.
        let readers = readers().filter { $0.trees.contains(where: \.isBranch) }
        guard !readers.isEmpty else {
            room = nil
            return []
        }
        let room = room ?? make()
        self.room = room
        let gateway = gateway()
        // The count compares addresses. The gateway's tree must live until its end, so that no other node is allocated
        // at one of its addresses.
        defer { withExtendedLifetime(gateway) {} }
        let besides = AdditionalHeap(gateway)
        let bytes = besides.bytes(of: readers.flatMap(\.trees))
        room.takes(bytes: bytes)
        guard bytes >= room.leastBytes, room.isOver else { return [] }
        // Readers whose trees are mostly paged out keep them, because rebuilt trees would use as much memory. The threshold depends
        // on the number of idle readers: many small trees may be large together.
        let idleCount = max(1, readers.count(where: \.isIdle))
        let leaving = nextIdle(readers).filter { besides.bytes(of: $0.trees) >= room.leastBytes / idleCount }.map(
            \.index)
        if !leaving.isEmpty {
            let staying = readers.filter { !leaving.contains($0.index) }
            room.takes(bytes: besides.bytes(of: staying.flatMap(\.trees)))
        }
        return leaving
    }

    /// Returns the idle readers to examine this time, in the order of `readers`.
    private mutating func nextIdle(_ readers: [Reader]) -> [Reader] {
        let idle = readers.filter(\.isIdle)
        guard idle.count > Self.mostCounted else { return idle }
        let first = counted % idle.count
        counted += Self.mostCounted
        return idle.enumerated().filter { index, _ in
            (index - first + idle.count) % idle.count < Self.mostCounted
        }.map(\.element)
    }
}
