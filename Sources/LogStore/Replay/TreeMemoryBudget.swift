public import Tree

/// The memory budget of trees that are built from the log or from snapshots. Tracks their memory and decides whether
/// they are paged out. Callable from any thread, but only from one at a time.
public protocol TreeMemoryBudget: AnyObject, Sendable {
    /// The growth in bytes from which paging out is considered.
    var leastBytes: Int { get }

    /// Reports the approximate current memory of the trees.
    func takes(bytes: Int)

    /// Whether all trees together exceed the budget.
    var isOver: Bool { get }

    /// Returns a packer that pages out a tree under construction, or nil if memory suffices or there is no page file.
    func pager() -> TreePager?
}

/// Tracks the memory of one tree while it is built and entries are applied to it, and has it paged out when it grows
/// too large. A value without I/O of its own.
public struct TreeMeter {
    private let room: any TreeMemoryBudget
    /// The memory of the tree at the last count.
    private var counted = 0
    /// The estimated growth since the last count.
    private var grown = 0
    /// Whether another component counts the tree at the start.
    private var sharesBase: Bool
    /// Whether parts of the tree are paged out.
    private var hasPages = false
    /// Whether the page file was full at the last attempt.
    private var wasFull = false

    /// The estimated memory of a change in addition to its value: the nodes on its path, and their neighbours if those
    /// were paged out.
    private static let bytesOfChange = 2_000
    private static let bytesOfPage = 40_000
    /// The estimated memory of a leaf.
    private static let bytesOfRow = 96

    /// - Parameter sharesBase: whether another component also holds the tree at the start, and counts it.
    public init(_ room: any TreeMemoryBudget, sharesBase: Bool) {
        self.room = room
        self.sharesBase = sharesBase
    }

    /// Adds the estimated memory of changes that were applied to the tree.
    mutating func grew(by changes: [Change]) {
        let besides = hasPages ? Self.bytesOfPage : Self.bytesOfChange
        for change in changes { grown += besides + change.value.heapBytes }
    }

    /// Returns the tree, paged out if the budget is exceeded.
    mutating func settled(_ root: Node) -> Node {
        guard var pager = pager(for: root) else { return root }
        let pagedOut = pager.pageOut(root)
        notePaging(pagedOut, pager)
        return pagedOut
    }

    /// Returns a packer if the tree has grown enough for paging out to be worthwhile. Call `notePaging` with the result.
    mutating func pager(for root: Node) -> TreePager? {
        guard grown >= max(room.leastBytes, wasFull ? counted : 0) else { return nil }
        if sharesBase {
            room.takes(bytes: min(grown, root.rowCount * Self.bytesOfRow))
        } else {
            // The estimate includes overwritten values.
            if grown > counted { count(root) }
            room.takes(bytes: counted + grown)
        }
        return room.pager()
    }

    mutating func notePaging(_ root: Node, _ pager: TreePager) {
        wasFull = pager.hasEnded
        if pager.pagedRows > 0 { hasPages = true }
        count(root)
    }

    /// Counts the tree, which no other component counts from now on.
    mutating func count(_ root: Node) {
        sharesBase = false
        counted = root.heapBytesOfTree
        grown = 0
        room.takes(bytes: counted)
    }

    /// Returns a packer for a tree that is being read and has about `bytes` in memory, or nil.
    mutating func pager(whileReading bytes: Int) -> TreePager? {
        room.takes(bytes: bytes)
        guard bytes - counted >= room.leastBytes, let pager = room.pager() else { return nil }
        // The packer reduces the memory. If the page file is full, the next attempt follows after more growth.
        counted = bytes
        hasPages = true
        return pager
    }
}
