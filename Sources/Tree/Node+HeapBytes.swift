extension Node {
    /// The heap memory of the node in bytes, including the allocator's overhead. Walks the whole node. Parts that several
    /// versions of a tree share count in each. So do texts that several paths share, unless they are close to each other.
    public var heapBytes: Int {
        var count = HeapCount()
        count.add(self)
        return count.bytes
    }

    /// The heap memory of a whole tree in bytes. Texts that many paths share count once.
    public var heapBytesOfTree: Int {
        var count = HeapCount(remembering: 4_096)
        count.add(self)
        return count.bytes
    }
}

/// Counts the heap memory of trees in addition to that of a known tree. The known tree is walked once, for any number of
/// counts.
public struct AdditionalHeap: Sendable {
    private let known: HeapCount

    /// - Parameter known: the other tree, or null for none. O(size of the tree).
    public init(_ known: Node) {
        var count = HeapCount(remembering: 4_096)
        count.remembersSlabs = true
        count.add(known)
        self.known = count
    }

    /// Returns the heap memory of some trees together in bytes, without the parts that the known tree contains. Each part
    /// counts once. A small part counts with the part that contains it.
    public func bytes(of trees: [Node]) -> Int {
        var count = known
        for tree in trees { count.add(tree) }
        return count.bytes - known.bytes
    }
}

/// Adds up the heap memory of a tree's parts.
struct HeapCount {
    private(set) var bytes = 0
    /// Whether slabs that occur repeatedly count once.
    var remembersSlabs = false
    /// The identities of the slabs that were counted.
    private var slabs: Set<UInt> = []
    /// The addresses of texts that were counted. The keys of a collection's records often share memory.
    private var seen: [UInt]

    /// - Parameter texts: the number of remembered texts, a power of two.
    init(remembering texts: Int = 256) { seen = Array(repeating: 0, count: texts) }

    /// Returns the size of an allocation of `size` bytes: glibc adds a word of its own, rounds up to 16, and uses at least 32.
    @inline(__always)
    static func allocation(_ size: Int) -> Int { max(32, (size + 8 + 15) & ~15) }

    /// The bytes before an object's fields, and before an array's elements.
    private static let objectHeader = 16
    private static let arrayHeader = 32
    /// The longest text that is stored inline, in bytes.
    private static let mostInlineBytes = 15

    /// Returns the memory of a text of `count` bytes, without its reference.
    @inline(__always)
    static func bytes(ofText count: Int) -> Int {
        // Swift requests a multiple of 16 bytes for a text.
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

    /// Returns the heap memory of a slab in bytes.
    static func bytes(of slab: ChildMap.Slab) -> Int {
        var count = HeapCount()
        count.add(slab)
        return count.bytes
    }

    private mutating func add(_ slab: ChildMap.Slab) {
        if remembersSlabs, slab.isWorthRemembering, !slabs.insert(slab.identity).inserted { return }
        switch slab {
        case .paged(let paged):
            // The keeper of a page counts its content.
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
        let slot = Int(address >> 4) & (seen.count - 1)
        if seen[slot] == address { return }
        seen[slot] = address
        bytes += Self.bytes(ofText: count)
    }
}
