import Glibc
import Testing

@testable import Tree

/// Checks that the estimated heap size of a tree equals the size that the allocator has given for it. Every allocation
/// of the tree is looked up in the allocator itself.
@Suite struct HeapBytesTests {
    /// Adds up the allocator's size of each allocation, each once.
    private struct Allocations {
        var known: Set<UInt> = []
        var bytes = 0
        /// The function of glibc, which its Swift module omits.
        private let usableSize = dlsym(nil, "malloc_usable_size").map {
            unsafeBitCast($0, to: (@convention(c) (UnsafeMutableRawPointer) -> Int).self)
        }

        mutating func add(_ address: UInt) {
            guard known.insert(address).inserted, let pointer = UnsafeMutableRawPointer(bitPattern: address) else {
                return
            }
            // Each allocation is preceded by a word of the allocator's.
            bytes += (usableSize?(pointer) ?? 0) + 8
        }

        mutating func add(_ object: AnyObject) { add(UInt(bitPattern: Unmanaged.passUnretained(object).toOpaque())) }

        mutating func add<Element>(_ array: ContiguousArray<Element>) {
            array.withUnsafeBufferPointer { add(UInt(bitPattern: $0.baseAddress) - 32) }
        }

        mutating func add(_ text: String) {
            guard text.utf8.count > 15 else { return }
            text.withBytes { add(UInt(bitPattern: $0.baseAddress) - 32) }
        }

        mutating func add(_ node: Node) {
            switch node {
            case .string(let text): add(text)
            case .prioritized(let leaf):
                add(leaf)
                add(leaf.value)
                add(leaf.priority)
            case .branch(let branch):
                add(branch)
                if !branch.priority.isNull {
                    for child in Mirror(reflecting: branch).children where child.label == "ownPriority" {
                        if let box = child.value as? BranchPriority { add(box) }
                    }
                    add(branch.priority)
                }
                add(branch.children.root)
            default: break
            }
        }

        mutating func add(_ slab: ChildMap.Slab) {
            switch slab {
            case .entries(let entries):
                add(entries)
                for entry in entries {
                    add(entry.key.text)
                    add(entry.node)
                }
            case .inner(let inner):
                add(inner)
                add(inner.slabs)
                add(inner.lowKeys)
                for slab in inner.slabs { add(slab) }
            case .paged: Issue.record("nobody has made pages")
            }
        }
    }

    private static func pushID(_ number: Int) -> String {
        "-Nx" + String(repeating: "a", count: 11) + "\(100_000 + number)"
    }

    /// Returns the same tree with its texts on the heap, as in trees that were read: literals are in the program.
    private static func onHeap(_ node: Node) -> Node {
        switch node {
        case .string(let text): .string(onHeap(text))
        case .prioritized(let leaf): onHeap(leaf.value).withPriority(onHeap(leaf.priority))
        case .branch(let branch):
            Node(
                children: branch.children.map { (Key(onHeap($0.key.text)), onHeap($0.node)) },
                priority: onHeap(branch.priority))
        default: node
        }
    }

    private static func onHeap(_ text: String) -> String { String(decoding: Array(text.utf8), as: UTF8.self) }

    /// Typical kinds of trees.
    static let kinds: [(String, Node)] = [
        ("small numbers", Node(children: (0..<10_000).map { (Key("\($0)"), .int(Int64($0))) })),
        ("short texts", Node(children: (0..<10_000).map { (Key("k\($0)"), .string("text \($0)")) })),
        ("long texts", Node(children: (0..<2_000).map { (Key("k\($0)"), .string(String(repeating: "x", count: $0))) })),
        ("push ids", Node(children: (0..<10_000).map { (Key(pushID($0)), .bool(true)) })),
        (
            "records",
            Node(
                children: (0..<2_000).map { number in
                    (
                        Key(pushID(number)),
                        Node(children: [
                            (Key("name"), .string("Somebody \(number)")), (Key("age"), .int(30)),
                            (Key("place"), Node(children: [(Key("city"), .string("Somewhere over there"))])),
                        ])
                    )
                })
        ),
        ("priorities", Node(children: (0..<2_000).map { (Key("k\($0)"), Node.int(1).withPriority(.int(Int64($0)))) })),
        (
            "deep",
            (0..<500).reduce(Node.null) { tree, number in
                tree.replacing(Path(splitting: "\(number)/a/b/c/d/e/f/g/h"), with: .int(1))
            }.withPriority(.string("a priority of some length"))
        ),
    ]

    @Test(arguments: kinds) func estimatesAreTrue(_ name: String, _ tree: Node) {
        let tree = Self.onHeap(tree)
        var allocations = Allocations()
        allocations.add(tree)
        let ratio = Double(tree.heapBytes) / Double(allocations.bytes)
        #expect(ratio > 0.95 && ratio < 1.05, "\(name): \(tree.heapBytes) for \(allocations.bytes)")
    }

    /// The estimate is also right for trees that grew by writes, and lost parts.
    @Test(arguments: [1, 2, 3] as [UInt64]) func estimatesOfWrittenTreesAreTrue(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        var tree = Node.null
        for number in 0..<3_000 {
            let location = Path(splitting: "wide/\(generator.random.below(2_000))")
                .appending(Path(splitting: generator.path(maxDepth: 2).description))
            tree = tree.replacing(location, with: number % 7 == 0 ? .null : Self.onHeap(generator.tree(depth: 2)))
        }
        var allocations = Allocations()
        allocations.add(tree)
        let ratio = Double(tree.heapBytes) / Double(allocations.bytes)
        #expect(ratio > 0.9 && ratio < 1.1, "seed \(seed): \(tree.heapBytes) for \(allocations.bytes)")
    }
}
