public import Tree

extension RangeMerge {
    /// Returns a client's node after the ranges of one message, which must be in order. All leaves of the node in the
    /// ranges are replaced by the leaves of the ranges; its other leaves stay, even if the ranges repeat them
    /// (reference: rtdb-protocol 3.7).
    ///
    /// Shares every part of the node that no range touches. The cost is that of the leaves in the message, and for each
    /// range of two paths; leaves that a range removes cost nothing. From ranges that are out of order or that overlap
    /// only the parts after all earlier ranges remove leaves, and the later of two equal leaves counts.
    public static func apply(_ ranges: [RangeMerge], to node: Node) -> Node {
        let application = RangeApplication(ranges)
        var tree = application.merged(node)
        // Priorities come last, because only an existing node can have one.
        for row in application.priorities { tree = tree.replacing(row.path, with: row.value) }
        return tree
    }
}

/// Merges the leaves of ranges into one node.
private struct RangeApplication {
    /// A range whose leaves are removed. The starts are exclusive, and the ends inclusive.
    private struct Removal {
        let start: Path?
        let end: Path?
    }

    private struct News {
        let row: LeafRow
        /// The position in the message.
        let number: Int
    }

    /// The ranges as seen from one node.
    private struct Part {
        /// The removals that may contain something at or below the node.
        var removals: Range<Int>
        /// Whether the first of them contains the node itself.
        var startsBefore: Bool
        /// Whether the last of them contains everything up to the end of the node.
        var endsAfter: Bool
        /// The leaves of the message at or below the node.
        var news: Range<Int>
        /// Leaves of the message up to this number have been replaced by a leaf at or above the node.
        var replaced = -1
        /// Whether one removal contains the node and everything below it.
        var isRemoved: Bool { removals.count == 1 && startsBefore && endsAfter }
        /// Whether a leaf of the message has replaced the node or one above it.
        var isHidden: Bool { replaced >= 0 }
    }

    /// A removal as seen from a node: the children at its bounds. All children between them are removed.
    private struct Span {
        let first: Key?
        let last: Key?
    }

    /// In order, without overlaps.
    private let removals: [Removal]
    /// The leaves in order of their paths, and of the message among equal paths. The priorities of inner nodes are
    /// apart.
    private let news: [News]
    /// In the order of the message.
    let priorities: [LeafRow]

    init(_ ranges: [RangeMerge]) {
        removals = Self.removals(ranges)
        var news: [News] = []
        var priorities: [LeafRow] = []
        var isSorted = true
        for row in ranges.lazy.flatMap(\.rows) {
            guard !row.path.namesPriority else {
                priorities.append(row)
                continue
            }
            if let last = news.last, RangeMerge.order(last.row.path, row.path) > 0 { isSorted = false }
            news.append(News(row: row, number: news.count))
        }
        if !isSorted {
            news.sort {
                let order = RangeMerge.order($0.row.path, $1.row.path)
                return order == 0 ? $0.number < $1.number : order < 0
            }
        }
        self.news = news
        self.priorities = priorities
    }

    private static func removals(_ ranges: [RangeMerge]) -> [Removal] {
        var removals: [Removal] = []
        var reached: Path?
        for range in ranges {
            if let end = range.end, let reached, RangeMerge.order(end, reached) <= 0 { continue }
            var start = range.start
            if let reached, start.map({ RangeMerge.order($0, reached) < 0 }) ?? true { start = reached }
            let isEmpty = if let start, let end = range.end { RangeMerge.order(start, end) >= 0 } else { false }
            if !isEmpty { removals.append(Removal(start: start, end: range.end)) }
            guard let end = range.end else { break }
            reached = end
        }
        return removals
    }

    func merged(_ root: Node) -> Node {
        guard let first = removals.first, let last = removals.last else {
            return merged(
                root, Part(removals: 0..<0, startsBefore: false, endsAfter: false, news: news.indices), depth: 0)
        }
        return merged(
            root,
            Part(
                removals: removals.indices, startsBefore: first.start == nil, endsAfter: last.end == nil,
                news: news.indices),
            depth: 0)
    }

    /// Returns the node at a path of `depth` keys after the message. The depth of the recursion is that of the ranges'
    /// paths.
    private func merged(_ old: Node, _ part: Part, depth: Int) -> Node {
        if part.news.isEmpty, part.isHidden || part.removals.isEmpty { return part.isHidden ? .null : old }
        var part = part
        let leaf = takeLeaf(&part, depth)
        let spans = spans(part, depth)
        let isMerged = old.isBranch && !part.isHidden
        var entries: [(key: Key, node: Node)] = []
        for (key, below) in children(part, spans, depth, withBounds: isMerged) {
            let child = old.child(key)
            let new = merged(child, below, depth: depth + 1)
            // A child between the bounds of a removal is gone, unless it is set again, possibly to the same value.
            let isKept = isMerged && !below.isRemoved && new.isIdentical(to: child)
            if !isKept, isMerged || !new.isNull { entries.append((key, new)) }
        }
        guard isMerged else {
            var node = part.isHidden || part.startsBefore ? Node.null : old
            if let leaf { node = leaf }
            node = node.replacingChildren(entries, removing: [])
            // A priority of its own stays, whatever the node has become.
            guard case .branch(let branch) = old, !branch.priority.isNull, !remove(spans, .priority) else {
                return node
            }
            return node.withPriority(branch.priority)
        }
        let gaps = spans.filter { $0.first == nil || $0.first != $0.last }
        let node = old.replacingChildren(entries, removing: gaps.map { KeyGap(after: $0.first, before: $0.last) })
        return !old.priority.isNull && remove(spans, .priority) ? node.withPriority(.null) : node
    }

    /// Returns the message's last leaf at the node itself, if there is one, and removes such leaves from the part.
    private func takeLeaf(_ part: inout Part, _ depth: Int) -> Node? {
        var leaf: Node?
        var next = part.news.lowerBound
        while next < part.news.upperBound, news[next].row.path.depth == depth {
            if news[next].number > part.replaced {
                leaf = news[next].row.value
                part.replaced = news[next].number
            }
            next += 1
        }
        part.news = next..<part.news.upperBound
        return leaf
    }

    private func spans(_ part: Part, _ depth: Int) -> [Span] {
        var spans: [Span] = []
        spans.reserveCapacity(part.removals.count)
        for index in part.removals {
            let isOpenStart = index == part.removals.lowerBound && part.startsBefore
            let isOpenEnd = index == part.removals.upperBound - 1 && part.endsAfter
            let start = isOpenStart ? nil : removals[index].start
            guard !isOpenEnd, let end = removals[index].end else {
                spans.append(Span(first: start.flatMap { $0.depth > depth ? $0[depth] : nil }, last: nil))
                continue
            }
            // A removal that ends with the node itself contains none of its children.
            guard end.depth > depth else { continue }
            spans.append(Span(first: start.flatMap { $0.depth > depth ? $0[depth] : nil }, last: end[depth]))
        }
        return spans
    }

    /// Returns whether a removal contains the leaf named `key` directly below the node.
    private func remove(_ spans: [Span], _ key: Key) -> Bool {
        spans.contains { span in span.first.map { $0 < key } ?? true && span.last.map { key <= $0 } ?? true }
    }

    /// Returns the children with leaves of the message or at bounds of removals, in order, with their parts.
    private func children(
        _ part: Part, _ spans: [Span], _ depth: Int, withBounds: Bool
    ) -> [(key: Key, part: Part)] {
        var bounds: [Key] = []
        if withBounds {
            for span in spans {
                for key in [span.first, span.last].compactMap(\.self) where bounds.last != key { bounds.append(key) }
            }
        }
        var found: [(key: Key, part: Part)] = []
        // A removal that ends with the node itself is the first one, and has no span.
        let skipped = part.removals.count - spans.count
        var (bound, span, next) = (0, 0, part.news.lowerBound)
        while bound < bounds.count || next < part.news.upperBound {
            var key = bound < bounds.count ? bounds[bound] : news[next].row.path[depth]
            if next < part.news.upperBound { key = min(key, news[next].row.path[depth]) }
            if bound < bounds.count, bounds[bound] == key { bound += 1 }
            let start = next
            while next < part.news.upperBound, news[next].row.path[depth] == key { next += 1 }
            while span < spans.count, let last = spans[span].last, last < key { span += 1 }
            var end = span
            while end < spans.count, spans[end].first.map({ $0 <= key }) ?? true { end += 1 }
            let base = part.removals.lowerBound + skipped
            found.append(
                (
                    key,
                    Part(
                        removals: base + span..<base + end,
                        startsBefore: span < end && spans[span].first != key,
                        endsAfter: span < end && spans[end - 1].last != key, news: start..<next,
                        replaced: part.replaced)
                ))
        }
        return found
    }
}
