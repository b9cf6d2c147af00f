import Tree

@testable import Wire

extension RangeMerge {
    /// Returns the ranges in which `node` differs from the client's hashes, in order.
    ///
    /// After applying them in order, a client has `node`, with one exception: SDKs omit the priority of a node from
    /// their hashes if all keys of the node sort before `.priority`. If the server no longer has such a priority and
    /// nothing else differs there, the hashes agree and the client keeps the priority.
    static func modelDifferences(_ node: Node, _ hash: CompoundHash) -> [RangeMerge] {
        ModelParts(ModelRows(node).rows, hash).merges()
    }
}

/// The parts of a tree's leaves, divided at the ends that a client names.
///
/// SDKs apply a range to the nodes above its start and end child by child, and then set the priority of each such node
/// if that priority sorts into the range. This has two consequences. The range has to contain a leaf of the node,
/// because the tree that the client reads omits nodes without leaves. The client must also have a leaf of the node at
/// that moment, because the priority of an empty node is lost: a part with a priority is joined with the later part
/// that brings the node's first leaf.
private struct ModelParts {
    private struct Part {
        let start: Path?
        let end: Path?
        let indices: Range<Int>
        let differs: Bool
    }

    private let rows: [ModelRows.Row]
    private var parts: [Part] = []

    /// Linear in the rows and the parts.
    init(_ rows: [ModelRows.Row], _ hash: CompoundHash) {
        self.rows = rows
        var start: Path?
        var first = 0
        for (index, expected) in hash.hashes.enumerated() {
            let end = index < hash.posts.count ? hash.posts[index] : nil
            var last = rows.count
            if let end { last = first + rows[first...].prefix { RangeMerge.order($0.path, end) <= 0 }.count }
            parts.append(
                Part(
                    start: start, end: end, indices: first..<last,
                    differs: ModelText(rows[first..<last]).hash != expected))
            start = end
            first = last
        }
    }

    /// Returns the parts that differ.
    func merges() -> [RangeMerge] {
        joined().filter(\.differs).map { part in
            RangeMerge(
                start: part.start, end: part.end, rows: Array(rows[part.indices]),
                repeated: repeated(in: part).map { rows[$0] })
        }
    }

    // MARK: Joining

    /// Returns the parts, and joins those that a client can't apply one after the other.
    private func joined() -> [Part] {
        var spans: [ClosedRange<Int>] = []
        for (number, part) in parts.enumerated() where part.differs {
            for index in part.indices where needsLeaf(index, in: part) {
                guard var span = span(of: index, in: number) else { continue }
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
            let (first, last) = (parts[span.lowerBound], parts[span.upperBound])
            result.append(
                Part(
                    start: first.start, end: last.end, indices: first.indices.lowerBound..<last.indices.upperBound,
                    differs: true))
            next = span.upperBound + 1
        }
        return result + parts[next...]
    }

    /// Returns the parts from that of a priority to the first one with a leaf of its node; nil if the client already
    /// has such a leaf.
    private func span(of index: Int, in number: Int) -> ClosedRange<Int>? {
        guard leafBefore(index) == nil, let after = leafAfter(index),
            let found = parts[number...].firstIndex(where: { $0.indices.contains(after) }), parts[found].differs
        else { return nil }
        return number...found
    }

    // MARK: Repeating

    /// Returns the leaves outside a part that are repeated in it, in order.
    private func repeated(in part: Part) -> [Int] {
        var found: Set<Int> = []
        if let leaf = leafAboveStart(of: part) { found.insert(leaf) }
        for index in part.indices where needsLeaf(index, in: part) {
            if let leaf = leafBefore(index) ?? leafAfter(index) { found.insert(leaf) }
        }
        return found.sorted()
    }

    /// Returns the leaf at or above the start of a part, if it has a priority that sorts into the part.
    private func leafAboveStart(of part: Part) -> Int? {
        guard let start = part.start, part.indices.lowerBound > 0 else { return nil }
        let leaf = part.indices.lowerBound - 1
        let (path, value) = (rows[leaf].path, rows[leaf].value)
        guard !path.namesPriority, !value.priority.isNull, path.contains(start) else { return nil }
        let range = RangeMerge(start: start, end: part.end, rows: [])
        return range.includes(path.appending(.priority)) ? leaf : nil
    }

    // MARK: Priorities of nodes

    /// Returns whether the row is the priority of a node that has no leaf in the part.
    private func needsLeaf(_ index: Int, in part: Part) -> Bool {
        guard rows[index].path.namesPriority else { return false }
        if let before = leafBefore(index), part.indices.contains(before) { return false }
        if let after = leafAfter(index), part.indices.contains(after) { return false }
        return true
    }

    /// Returns the nearest earlier leaf of the node whose priority is in the row. Only priorities of nodes below it lie
    /// between the two.
    private func leafBefore(_ index: Int) -> Int? {
        rows[..<index].lastIndex { !$0.path.namesPriority }.flatMap { isOfNode($0, of: index) ? $0 : nil }
    }

    private func leafAfter(_ index: Int) -> Int? {
        rows[(index + 1)...].firstIndex { !$0.path.namesPriority }.flatMap { isOfNode($0, of: index) ? $0 : nil }
    }

    /// Returns whether a leaf is below the node whose priority is in the row.
    private func isOfNode(_ leaf: Int, of index: Int) -> Bool {
        let depth = rows[index].path.depth - 1
        let path = rows[leaf].path
        guard path.depth > depth else { return false }
        return (0..<depth).allSatisfy { path[$0] == rows[index].path[$0] }
    }
}
