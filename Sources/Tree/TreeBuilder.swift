/// Builds a tree from rows of storage that are sorted by their paths' bytes. The cost of a row is the part of its path that
/// differs from the previous path. Every branch is created once, with exactly the size that it needs.
public struct TreeBuilder: ~Copyable {
    /// A branch on the path to the current row.
    private struct Open {
        let key: Key
        /// The length of the path text up to and including this key, in bytes.
        let pathLength: Int
        /// The index of the branch's first child in `finished`.
        let base: Int
        var priority: Node = .null
        /// Whether the children arrived in key order, which differs from byte order.
        var isSorted = true
        /// The children that are already in pages.
        var runs: PagedRuns?
        /// The approximate size of the finished children that are in no page, in bytes.
        var heapBytes = 0
    }

    /// The root and the branches down to the current row.
    private var stack: [Open] = [Open(key: Key(""), pathLength: 0, base: 0)]
    /// The finished children of all open branches.
    private var finished = EntryStack()
    private var rootLeaf: Node = .null
    private var path: [UInt8] = []
    private var cache: KeyCache?
    private var rows = 0
    private var heapBytes = 0
    /// Rows that arrived out of order, as rows with long paths do.
    private var late: [(Path, Node)] = []
    private var pager: TreePager?

    /// Fewer rows repeat too few keys to justify a cache.
    private static let leastRowsForCache = 256

    public init() {}

    /// Adds the row at `text` (`/a/b`; `/` for the root's leaf; `…/.priority`).
    public mutating func add(_ text: UnsafeRawBufferPointer, _ value: Node) {
        rows += 1
        let bytes = Self.heapBytes(of: value)
        heapBytes += bytes
        if rows == Self.leastRowsForCache { cache = KeyCache(slots: 4_096) }
        let shared = sharedLength(with: text)
        // Keep the open branches whose complete key is shared.
        while stack.count > 1 {
            let length = stack[stack.count - 1].pathLength
            if length <= shared, length < text.count, text[length] == UInt8(ascii: "/") { break }
            closeLast()
        }
        path.removeLast(path.count - shared)
        path.append(contentsOf: UnsafeRawBufferPointer(rebasing: text[shared...]))
        var start = stack[stack.count - 1].pathLength
        if start + 1 >= text.count {
            rootLeaf = value
            return
        }
        while true {
            let end = Self.endOfKey(in: text, from: start + 1)
            let key = key(text, start + 1, end)
            guard end == text.count else {
                stack.append(Open(key: key, pathLength: end, base: finished.count))
                start = end
                continue
            }
            if key == .priority {
                stack[stack.count - 1].priority = value
            } else {
                append(key, value, heapBytes: bytes)
            }
            return
        }
    }

    /// Adds a row at any path, at the cost of a change to the finished tree.
    public mutating func addUnordered(_ path: Path, _ value: Node) {
        heapBytes += Self.heapBytes(of: value)
        late.append((path, value))
    }

    /// Returns the tree, and empties the builder.
    public mutating func finish() -> Node {
        while stack.count > 1 { closeLast() }
        let priority = stack[0].priority
        var root = rootLeaf.withPriority(priority)
        if finished.count > 0 || stack[0].runs != nil {
            var whole = stack[0]
            // `whole` must have the only reference to its runs.
            stack[0].runs = nil
            root = takeBranch(&whole)
        }
        if root.isNull, !priority.isNull { late.append((Path([.priority]), priority)) }
        // Pages out the children that did not fill a run.
        if pager != nil, let pagedOut = pager?.pageOut(root) { root = pagedOut }
        // Priorities come last, because a node must exist to have one.
        for (path, value) in late where !path.namesPriority { root = root.replacing(path, with: value) }
        for (path, value) in late where path.namesPriority { root = root.replacing(path, with: value) }
        stack = [Open(key: Key(""), pathLength: 0, base: 0)]
        rootLeaf = .null
        path = []
        late = []
        return root
    }

    // MARK: Pages

    /// Pages out finished parts from now on, so that the tree may be larger than memory.
    public mutating func beginPagingOut(_ pager: consuming TreePager) {
        // The parts that are already finished. The rest of the branches above follows with its rows.
        finished.changeEach { $0 = .init(key: $0.key, node: pager.pageOut($0.node)) }
        // An earlier packer may have ended and left runs in memory.
        for index in stack.indices { stack[index].runs?.pageOut(&pager) }
        heapBytes -= self.pager?.pagedHeapBytes ?? 0
        self.pager = pager
    }

    /// Whether finished parts are paged out where possible.
    public var isPagingOut: Bool { pager?.hasEnded == false }

    /// The approximate size of the added rows that are in memory, in bytes.
    public var heapBytesInMemory: Int { max(0, heapBytes - (pager?.pagedHeapBytes ?? 0)) }

    /// Returns the approximate size of a leaf in memory, including its share of the branches above.
    private static func heapBytes(of leaf: Node) -> Int {
        if case .string(let text) = leaf { bytesOfLeaf + text.utf8.count } else { bytesOfLeaf }
    }

    private static let bytesOfLeaf = 96

    private mutating func pageOutRun(_ index: Int) {
        var entries = finished.take(from: stack[index].base)
        var runs = stack[index].runs ?? PagedRuns()
        runs.add(&entries, isSorted: stack[index].isSorted, &pager)
        stack[index].runs = runs
        stack[index].isSorted = true
        stack[index].heapBytes = 0
    }

    private func sharedLength(with text: UnsafeRawBufferPointer) -> Int {
        path.withUnsafeBytes { path in
            let most = min(path.count, text.count)
            var shared = 0
            while shared + 8 <= most {
                let one = path.loadUnaligned(fromByteOffset: shared, as: UInt64.self)
                let other = text.loadUnaligned(fromByteOffset: shared, as: UInt64.self)
                if one != other {
                    return shared + UInt64(littleEndian: one ^ other).trailingZeroBitCount / 8
                }
                shared += 8
            }
            while shared < most, path[shared] == text[shared] { shared += 1 }
            return shared
        }
    }

    @inline(__always)
    private static func endOfKey(in text: UnsafeRawBufferPointer, from start: Int) -> Int {
        var end = start
        while end < text.count, text[end] != UInt8(ascii: "/") { end += 1 }
        return end
    }

    private mutating func key(_ text: UnsafeRawBufferPointer, _ start: Int, _ end: Int) -> Key {
        let bytes = UnsafeRawBufferPointer(rebasing: text[start..<end]).assumingMemoryBound(to: UInt8.self)
        var made = 0
        func make() -> Key {
            // A key in the cache needs no additional memory.
            made = HeapCount.bytes(ofText: bytes.count)
            return Key(String(decoding: bytes, as: UTF8.self))
        }
        let key = KeyCache.isWorthKeeping(bytes) ? cache?.key(of: bytes, make) ?? make() : make()
        heapBytes += made
        return key
    }

    /// Adds a finished child to the innermost open branch.
    private mutating func append(_ key: Key, _ node: Node, heapBytes: Int) {
        let parent = stack.count - 1
        if stack[parent].isSorted, finished.count > stack[parent].base, finished.orderOfLast(against: key) >= 0 {
            stack[parent].isSorted = false
        }
        finished.append(.init(key: key, node: node))
        guard let most = pager?.sizes.bytesOfRun else { return }
        stack[parent].heapBytes += heapBytes
        if stack[parent].heapBytes >= most { pageOutRun(parent) }
    }

    private mutating func closeLast() {
        guard var last = stack.popLast() else { return }
        if finished.count > last.base || last.runs != nil {
            let node = takeBranch(&last)
            if !node.isNull { append(last.key, node, heapBytes: last.heapBytes) }
            return
        }
        guard !last.priority.isNull else { return }
        // A leaf has its own row before this one, and rows such as `/a b` may come between those of `/a` and `/a/.priority`.
        // All of a branch's children may be late.
        if !finished.prioritize(last.key, last.priority, from: stack[stack.count - 1].base) {
            late.append((Path(stack.dropFirst().map(\.key) + [last.key, .priority]), last.priority))
        }
    }

    /// - Parameter open: has no runs afterwards.
    private mutating func takeBranch(_ open: inout Open) -> Node {
        var entries = finished.take(from: open.base)
        if open.runs != nil {
            if !entries.isEmpty { open.runs?.add(&entries, isSorted: open.isSorted, &pager) }
            let children = open.runs?.joined(&pager)
            open.runs = nil
            if let children { return .branch(Branch(priority: open.priority, children: children)) }
        }
        if !open.isSorted { return Node(sorting: &entries, priority: open.priority) }
        return .branch(Branch(priority: open.priority, children: ChildMap(sorted: entries)))
    }
}
