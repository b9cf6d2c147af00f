import Synchronization

@testable import Tree

/// Keeps pages in an array, and evicts them from memory on request.
final class TestPages: PageKeeper {
    private struct State: Sendable {
        var kept: [[UInt8]?] = []
        var present = 0
        var most = 0
        var listed: [Page] = []
        var bytes = 0
        var reads = 0
    }

    private let state = Mutex(State())
    /// The maximum number of pages.
    let room: Int

    init(room: Int = .max) { self.room = room }

    /// The number of kept pages.
    var count: Int { state.withLock { $0.kept.count { $0 != nil } } }
    /// The largest number of pages kept at a time.
    var mostCount: Int { state.withLock { $0.most } }
    /// The size of the pages in memory.
    var bytesInMemory: Int { state.withLock { $0.bytes } }
    var reads: Int { state.withLock { $0.reads } }

    func keep(_ bytes: UnsafeRawBufferPointer) -> PageLocation? {
        state.withLock { state in
            guard state.kept.count < room else { return nil }
            state.kept.append(Array(bytes))
            state.present += 1
            state.most = max(state.most, state.present)
            return PageLocation(offset: Int64(state.kept.count - 1), length: Int32(bytes.count))
        }
    }

    func withBytes<Result>(at location: PageLocation, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        let bytes = state.withLock { state in
            state.reads += 1
            return state.kept[Int(location.offset)]
        }
        guard let bytes else { fail("a page that was freed is read") }
        return bytes.withUnsafeBytes(body)
    }

    func free(_ location: PageLocation) {
        state.withLock { state in
            state.kept[Int(location.offset)] = nil
            state.present -= 1
        }
    }

    func cameIn(_ page: Page) {
        state.withLock { state in
            state.listed.append(page)
            state.bytes += page.heapBytes
        }
    }

    func wentOut(bytes: Int) { state.withLock { $0.bytes -= bytes } }

    func cameLoose(bytes: Int) { wentOut(bytes: bytes) }

    func fail(_ reason: String) -> Never { fatalError(reason) }

    /// Evicts all pages from memory, including recently used ones.
    func takeOut() {
        while true {
            let pages = state.withLock { state in
                defer { state.listed = [] }
                return state.listed
            }
            if pages.isEmpty { return }
            var staying: [Page] = []
            for page in pages {
                switch page.leave() {
                case .stays: staying.append(page)
                case .left, .cameLoose: state.withLock { $0.bytes -= page.heapBytes }
                case .isClosed: break
                }
            }
            state.withLock { $0.listed += staying }
        }
    }

    /// Small page sizes, so that small trees have several pages.
    static var sizes: PageSizes {
        var sizes = PageSizes()
        sizes.target = 160
        sizes.least = 24
        sizes.bytesOfRun = 2_000
        return sizes
    }

    func pager() -> TreePager { TreePager(self, sizes: Self.sizes) }
}

extension TreeGenerator {
    /// Returns a tree with enough children for several levels of slabs, of all sizes.
    mutating func wideTree() -> Node {
        var children: [(Key, Node)] = []
        for number in 0..<(40 + random.below(400)) {
            let key = random.oneIn(4) ? String(number * 7) : "k\(number * 13 % 997)"
            let node =
                switch random.below(6) {
                case 0: tree(depth: 3)
                case 1: Node(children: (0..<random.below(60)).map { (Key("c\($0)"), leaf()) }, priority: priority())
                case 2: Node.string(String(repeating: "long text ", count: random.below(30)))
                default: tree(depth: 1)
                }
            children.append((Key(key), node))
        }
        return Node(children: children, priority: random.oneIn(3) ? priority() : .null)
    }

    /// Returns a path in the tree, or near one.
    mutating func path(in tree: Node) -> Path {
        var keys: [Key] = []
        var node = tree
        while case .branch(let branch) = node, keys.isEmpty || !random.oneIn(3) {
            let all = branch.children.map(\.key)
            let key = random.oneIn(8) ? key() : random.pick(all)
            keys.append(key)
            node = node.child(key)
        }
        if random.oneIn(9) { keys.append(.priority) }
        return Path(keys)
    }

    /// Returns a value that may be written at the path.
    mutating func value(at path: Path) -> Node {
        if random.oneIn(3) { return .null }
        return path.namesPriority ? priority() : tree(depth: 2)
    }
}
