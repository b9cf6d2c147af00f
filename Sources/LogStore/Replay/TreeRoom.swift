public import Tree

/// Where a tree goes that is made of the log or of a snapshot: counts what it takes of memory, and knows whether there is room for it.
/// One tree has it; any thread, one at a time.
public protocol TreeRoom: AnyObject, Sendable {
    /// What a tree has to grow by to be worth another look, in bytes.
    var leastBytes: Int { get }

    /// The tree takes about so much of memory now.
    func takes(bytes: Int)

    /// Puts the tree into pages; nil where there is room enough for it in memory, or nothing but memory.
    func packer() -> TreePacker?
}

/// What a tree takes of memory while entries are done to it; has it put into pages where that is too much. A value without I/O but for
/// what its room does.
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

    /// About what a change takes beside its value: the way to its place, and what is beside it where that was in a page.
    private static let bytesOfChange = 2_000
    private static let bytesOfPage = 40_000
    /// What a leaf takes at most, about.
    private static let bytesOfRow = 96

    /// - Parameter sharesBase: whether the tree that it begins with is somebody else's, too, who counts it.
    public init(_ room: any TreeRoom, sharesBase: Bool) {
        self.room = room
        self.sharesBase = sharesBase
    }

    /// Changes that were done to the tree.
    public mutating func grew(by changes: [Change]) {
        let besides = hasPages ? Self.bytesOfPage : Self.bytesOfChange
        for change in changes { grown += besides + change.value.heapBytes }
    }

    /// The tree grows old, and this is the only one that still has parts of it, of about so many bytes at most.
    public mutating func keeps(bytes: Int) {
        guard sharesBase else { return }
        grown = max(grown, bytes)
        room.takes(bytes: grown)
    }

    /// The tree, in pages where there is too little room for it.
    public mutating func settled(_ root: Node) -> Node {
        guard var packer = packer(for: root) else { return root }
        let packed = packer.pack(root)
        count(bytes: packed.heapBytesOfTree)
        return packed
    }

    /// What puts the tree into pages, where it has grown by so much that this is worth it; say afterwards what is left with `count`.
    public mutating func packer(for root: Node) -> TreePacker? {
        guard grown >= room.leastBytes else { return nil }
        if sharesBase {
            room.takes(bytes: min(grown, root.rowCount * Self.bytesOfRow))
        } else {
            // What was overwritten is in the estimate, too.
            if grown > counted { count(bytes: root.heapBytesOfTree) }
            room.takes(bytes: counted + grown)
        }
        guard let packer = room.packer() else { return nil }
        hasPages = true
        return packer
    }

    /// The tree is nobody else's, and takes so much of memory.
    public mutating func count(bytes: Int) {
        sharesBase = false
        counted = bytes
        grown = 0
        room.takes(bytes: bytes)
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
