public import Tree

extension RangeMerge {
    /// Returns the ranges in which `node` differs from the client's hashes, in order. Walks the node once, and once more
    /// the ranges that differ. If the client's posts are out of order, returns one range with everything.
    ///
    /// After applying them in order, a client has `node`, with one exception: SDKs omit the priority of a node from
    /// their hashes if all keys of the node sort before `.priority`. If the server no longer has such a priority and
    /// nothing else differs there, the hashes agree and the client keeps the priority.
    public static func differences(_ node: Node, _ hash: CompoundHash) -> [RangeMerge] {
        guard zip(hash.posts, hash.posts.dropFirst()).allSatisfy({ order($0, $1) <= 0 }) else {
            return [RangeMerge(start: nil, end: nil, rows: LeafWalk.rows(node, after: nil, through: nil))]
        }
        return RangeParts(node, hash).merges()
    }
}

/// The parts of a tree's leaves, divided at the ends that a client names.
///
/// SDKs apply a range to the nodes above its start and end child by child, and then set the priority of each such node
/// if that priority sorts into the range. This has two consequences. The range has to contain a leaf of the node,
/// because the tree that the client reads omits nodes without leaves. The client must also have a leaf of the node at
/// that moment, because the priority of an empty node is lost: a part with a priority is joined with the later part
/// that brings the node's first leaf.
private struct RangeParts {
    private struct Part {
        let start: Path?
        let end: Path?
        let differs: Bool

        func contains(_ path: Path) -> Bool {
            start.map { RangeMerge.order($0, path) < 0 } ?? true && end.map { RangeMerge.order(path, $0) <= 0 } ?? true
        }
    }

    private let node: Node
    private let posts: [Path]
    private var parts: [Part] = []

    /// Linear in the leaves and the parts.
    init(_ node: Node, _ hash: CompoundHash) {
        self.node = node
        posts = hash.posts
        let (posts, hashes) = (hash.posts, hash.hashes)
        var differs: [Bool] = []
        differs.reserveCapacity(hashes.count)
        var text = RangeText()
        LeafWalk.visit(node) { keys, shared, value in
            while differs.count < posts.count, RangeMerge.order(keys, posts[differs.count].keys) > 0 {
                differs.append(text.takeHash() != hashes[differs.count])
            }
            text.append(keys, shared: shared, value)
        }
        while differs.count < hashes.count { differs.append(text.takeHash() != hashes[differs.count]) }
        for index in differs.indices {
            parts.append(
                Part(
                    start: index > 0 ? posts[index - 1] : nil, end: index < posts.count ? posts[index] : nil,
                    differs: differs[index]))
        }
    }

    /// Returns the parts that differ.
    func merges() -> [RangeMerge] {
        joined().filter(\.differs).map { part in
            let rows = rows(of: part)
            return RangeMerge(start: part.start, end: part.end, rows: rows, repeated: repeated(in: part, rows))
        }
    }

    private func rows(of part: Part) -> [LeafRow] { LeafWalk.rows(node, after: part.start, through: part.end) }

    // MARK: Joining

    /// Returns the parts, and joins those that a client can't apply one after the other.
    private func joined() -> [Part] {
        var spans: [ClosedRange<Int>] = []
        for (number, part) in parts.enumerated() where part.differs {
            LeafWalk.visit(node, after: part.start, through: part.end) { keys, _, _ in
                guard keys.last == .priority else { return }
                let leaves = LeavesAround(priority: keys, in: node)
                guard leaves.before == nil, let after = leaves.after, !part.contains(after.path) else { return }
                let found = self.number(of: after.path)
                guard parts[found].differs else { return }
                var span = number...found
                if let last = spans.last, last.upperBound >= span.lowerBound {
                    span = last.lowerBound...max(last.upperBound, span.upperBound)
                    spans.removeLast()
                }
                spans.append(span)
            }
        }
        guard !spans.isEmpty else { return parts }
        var result: [Part] = []
        var next = 0
        for span in spans {
            result += parts[next..<span.lowerBound]
            result.append(
                Part(start: parts[span.lowerBound].start, end: parts[span.upperBound].end, differs: true))
            next = span.upperBound + 1
        }
        return result + parts[next...]
    }

    /// Returns the number of the part that contains a leaf.
    private func number(of path: Path) -> Int {
        var (low, high) = (0, posts.count)
        while low < high {
            let middle = (low + high) / 2
            if RangeMerge.order(posts[middle], path) < 0 { low = middle + 1 } else { high = middle }
        }
        return low
    }

    // MARK: Repeating

    /// Returns the leaves outside a part that are repeated in it, in order.
    private func repeated(in part: Part, _ rows: [LeafRow]) -> [LeafRow] {
        var found: [LeafRow] = []
        if let leaf = leafAboveStart(of: part) { found.append(leaf) }
        for row in rows where row.path.namesPriority {
            let leaves = LeavesAround(priority: row.path.keys, in: node)
            let all = [leaves.before, leaves.after].compactMap(\.self)
            // A leaf of the node in the part is enough.
            if all.contains(where: { part.contains($0.path) }) { continue }
            if let leaf = all.first { found.append(leaf) }
        }
        guard found.count > 1 else { return found }
        found.sort { RangeMerge.order($0.path, $1.path) < 0 }
        var unique = [found[0]]
        for row in found where row.path != unique[unique.count - 1].path { unique.append(row) }
        return unique
    }

    /// Returns the leaf at or above the start of a part, if it has a priority that sorts into the part.
    private func leafAboveStart(of part: Part) -> LeafRow? {
        guard let start = part.start else { return nil }
        var (leaf, depth) = (node, 0)
        while case .branch = leaf, depth < start.depth {
            leaf = leaf.child(start[depth])
            depth += 1
        }
        let path = start.prefix(depth)
        guard leaf.isLeaf, !leaf.priority.isNull, part.contains(path.appending(.priority)) else { return nil }
        return LeafRow(path: path, value: leaf)
    }
}

/// The nearest leaves of an inner node before and after its priority. Only priorities of nodes below it lie between
/// them.
private struct LeavesAround {
    let before: LeafRow?
    let after: LeafRow?

    /// - Parameter keys: the path of the priority.
    init(priority keys: [Key], in root: Node) {
        let path = Path(Array(keys.dropLast()))
        guard case .branch(let branch) = root[path] else {
            (before, after) = (nil, nil)
            return
        }
        var last: ChildMap.Entry?
        branch.children.forEachReversed(from: .priority) { entry in
            last = entry
            return false
        }
        before = last.flatMap { $0.node.edgeLeaf(last: true, at: path.appending($0.key)) }
        var rest = branch.children.entries(from: .priority)
        after = rest.next().flatMap { $0.node.edgeLeaf(last: false, at: path.appending($0.key)) }
    }
}
