public import Tree

/// Where trees go that are made of the log or of snapshots: counts what they take of memory, and knows whether there is room for them. Any
/// thread, one at a time.
public protocol TreeRoom: AnyObject, Sendable {
    /// What they have to take to be worth more than a count, in bytes.
    var leastBytes: Int { get }

    /// They take about so much of memory now.
    func takes(bytes: Int)

    /// Whether all trees together take more than they may.
    var isOver: Bool { get }

    /// Puts a tree that is being made into pages; nil where there is room enough for it in memory, or nothing but memory.
    func packer() -> TreePacker?
}

/// What one tree takes of memory while it is made and entries are done to it; has it put into pages where that is too much. A value without I/O
/// but for what its room does.
public struct TreeMeter {
    private let room: any TreeRoom
    /// What was found when the tree was counted last.
    private var counted = 0
    /// About what has come since.
    private var grown = 0
    /// Somebody else counts what the tree began with.
    private var sharesBase: Bool
    /// Parts of it are in pages.
    private var hasPages = false
    /// There was no room in the pages the last time.
    private var wasFull = false

    /// About what a change takes beside its value: the way to its place, and what is beside it where that was in a page.
    private static let bytesOfChange = 2_000
    private static let bytesOfPage = 40_000
    /// What a leaf takes, about.
    private static let bytesOfRow = 96

    /// - Parameter sharesBase: whether the tree that it begins with is somebody else's, too, who counts it.
    public init(_ room: any TreeRoom, sharesBase: Bool) {
        self.room = room
        self.sharesBase = sharesBase
    }

    /// Changes that were done to the tree.
    mutating func grew(by changes: [Change]) {
        let besides = hasPages ? Self.bytesOfPage : Self.bytesOfChange
        for change in changes { grown += besides + change.value.heapBytes }
    }

    /// The tree, in pages where there is too little room for it.
    mutating func settled(_ root: Node) -> Node {
        guard var packer = packer(for: root) else { return root }
        let packed = packer.pack(root)
        wasPacked(packed, packer)
        return packed
    }

    /// What puts the tree into pages, where it has grown by so much that this is worth it; tell `wasPacked` of the result.
    mutating func packer(for root: Node) -> TreePacker? {
        guard grown >= max(room.leastBytes, wasFull ? counted : 0) else { return nil }
        if sharesBase {
            room.takes(bytes: min(grown, root.rowCount * Self.bytesOfRow))
        } else {
            // What was overwritten is in the estimate, too.
            if grown > counted { count(root) }
            room.takes(bytes: counted + grown)
        }
        return room.packer()
    }

    mutating func wasPacked(_ root: Node, _ packer: TreePacker) {
        wasFull = packer.hasEnded
        if packer.packedRows > 0 { hasPages = true }
        count(root)
    }

    /// Counts the tree, which is nobody else's.
    mutating func count(_ root: Node) {
        sharesBase = false
        counted = root.heapBytesOfTree
        grown = 0
        room.takes(bytes: counted)
    }

    /// The same for a tree that is being read: about so much of it is in memory.
    mutating func packer(whileReading bytes: Int) -> TreePacker? {
        room.takes(bytes: bytes)
        guard bytes - counted >= room.leastBytes, let packer = room.packer() else { return nil }
        // With it there is less; without room in the pages, the next try is when there is more.
        counted = bytes
        hasPages = true
        return packer
    }
}
