extension Node {
    /// What the node takes of the heap, the allocator's share included: a walk over all of it. Parts that versions of a tree share
    /// count in each; so do texts that several places share, but where they are near one another.
    public var heapBytes: Int {
        var count = HeapCount()
        count.add(self)
        return count.bytes
    }

    /// The same of a whole tree, with texts that many places share counted once.
    public var heapBytesOfTree: Int {
        var count = HeapCount(remembering: 4_096)
        count.add(self)
        return count.bytes
    }
}

/// Counts what trees take of the heap beside a tree that is known. The known tree is walked once, for any number of counts.
public struct HeapBesides: Sendable {
    private let known: HeapCount

    /// - Parameter known: the other tree. Null: none. O(size of the tree).
    public init(_ known: Node) {
        var count = HeapCount(remembering: 4_096)
        count.remembersSlabs = true
        count.add(known)
        self.known = count
    }

    /// What some trees take together, each part of them once, without what the known tree has of it. A part that is small counts with what it
    /// is in.
    public func bytes(of trees: [Node]) -> Int {
        var count = known
        for tree in trees { count.add(tree) }
        return count.bytes - known.bytes
    }
}

/// Adds up what the parts of a tree take of the heap.
struct HeapCount {
    private(set) var bytes = 0
    /// Whether slabs count once that come again and again.
    var remembersSlabs = false
    /// Those that have been counted, by identity.
    private var slabs: Set<UInt> = []
    /// Where texts were that have been counted: the keys of a collection's records are often the very same.
    private var seen: [UInt]

    /// - Parameter texts: how many it remembers, a power of two.
    init(remembering texts: Int = 256) { seen = Array(repeating: 0, count: texts) }

    /// What an allocation of so many bytes takes: glibc rounds up to 16 with a word of its own, and gives at least 32.
    @inline(__always)
    static func allocation(_ size: Int) -> Int { max(32, (size + 8 + 15) & ~15) }

    /// Bytes before an object's fields, and before an array's elements.
    private static let objectHeader = 16
    private static let arrayHeader = 32
    /// Texts of up to so many bytes are inside their references.
    private static let mostInlineBytes = 15

    /// What a text of so many bytes takes beside its reference.
    @inline(__always)
    static func bytes(ofText count: Int) -> Int {
        // Swift asks for a multiple of 16 bytes for a text.
        count <= mostInlineBytes ? 0 : allocation((arrayHeader + count + 1 + 15) & ~15)
    }

    private static let branch = allocation(
        objectHeader + 2 * MemoryLayout<Int>.size + MemoryLayout<BranchPriority?>.size)
    private static let inner = allocation(objectHeader + 4 * MemoryLayout<Int>.size)
    /// A page that is not in memory: `PagedSlab`, `Page` and the keeper's reference.
    private static let page = 2 * allocation(6 * MemoryLayout<Int>.size + objectHeader) + allocation(64)
    private static let prioritizedLeaf = allocation(objectHeader + 2 * MemoryLayout<Node>.stride)
    private static let branchPriority = allocation(objectHeader + MemoryLayout<Node>.size)

    mutating func add(_ node: Node) {
        switch node {
        case .null, .bool, .int, .double, .serverValue: break
        case .string(let text): add(text)
        case .prioritized(let leaf):
            bytes += Self.prioritizedLeaf
            add(leaf.value)
            add(leaf.priority)
        case .branch(let branch):
            bytes += Self.branch
            if !branch.priority.isNull {
                bytes += Self.branchPriority
                add(branch.priority)
            }
            add(branch.children.root)
        }
    }

    /// What a slab takes of the heap.
    static func bytes(of slab: ChildMap.Slab) -> Int {
        var count = HeapCount()
        count.add(slab)
        return count.bytes
    }

    private mutating func add(_ slab: ChildMap.Slab) {
        if remembersSlabs, slab.isWorthRemembering, !slabs.insert(slab.identity).inserted { return }
        switch slab {
        case .paged(let paged):
            // What a page holds is counted by who keeps it.
            bytes += Self.page
            add(paged.lowKey.text)
        case .entries(let entries):
            bytes += Self.allocation(Self.arrayHeader + entries.capacity * MemoryLayout<ChildMap.Entry>.stride)
            for entry in entries {
                add(entry.key.text)
                add(entry.node)
            }
        case .inner(let inner):
            bytes += Self.inner
            bytes += Self.allocation(Self.arrayHeader + inner.slabs.capacity * MemoryLayout<ChildMap.Slab>.stride)
            bytes += Self.allocation(Self.arrayHeader + inner.lowKeys.capacity * MemoryLayout<Key>.stride)
            for slab in inner.slabs { add(slab) }
        }
    }

    @inline(__always)
    private mutating func add(_ text: String) {
        let count = text.utf8.count
        if count <= Self.mostInlineBytes { return }
        let address = text.withBytes { UInt(bitPattern: $0.baseAddress) }
        let place = Int(address >> 4) & (seen.count - 1)
        if seen[place] == address { return }
        seen[place] = address
        bytes += Self.bytes(ofText: count)
    }
}
