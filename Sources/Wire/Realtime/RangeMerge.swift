public import Tree

/// A range of a tree's leaves that replaces the client's leaves there (reference: rtdb-protocol 3.7).
public struct RangeMerge: Sendable, Equatable {
    /// The exclusive start; nil for the beginning of the tree.
    public let start: Path?
    /// The inclusive end; nil for the end of the tree.
    public let end: Path?
    /// The leaves of the range, in depth-first order.
    let rows: [LeafRow]
    /// Leaves outside the range, in the same order. SDKs read the leaves of a range as a tree, in which a node without
    /// leaves has no priority, and they replace the priority of a leaf at the range's start. Such a leaf is repeated
    /// with its present value, and changes nothing else in a client.
    let repeated: [LeafRow]

    init(start: Path?, end: Path?, rows: [LeafRow], repeated: [LeafRow] = []) {
        self.start = start
        self.end = end
        self.rows = rows
        self.repeated = repeated
    }

    /// Returns whether a leaf at `path` belongs to the range.
    func includes(_ path: Path) -> Bool {
        start.map { Self.order($0, path) < 0 } ?? true && end.map { Self.order(path, $0) <= 0 } ?? true
    }

    /// All leaves of the message, in depth-first order.
    private var written: [LeafRow] {
        guard let first = rows.first else { return repeated }
        let count = repeated.prefix { Self.order($0.path, first.path) < 0 }.count
        return repeated[..<count] + rows + repeated[count...]
    }

    /// Writes the leaves as nested objects. It can't build a tree first, because a range may contain the priority of a
    /// node and none of its leaves.
    func write(to writer: inout JSONWriter) {
        let rows = written
        guard let first = rows.first else { return writer.raw("null") }
        if first.path.isRoot { return writer.write(first.value) }
        var open: [Key] = []
        var hasMembers = false
        writer.beginObject()
        for row in rows {
            let parents = row.path.keys.dropLast()
            var shared = 0
            while shared < open.count, shared < parents.count, open[shared] == parents[shared] { shared += 1 }
            while open.count > shared {
                writer.endObject()
                open.removeLast()
                hasMembers = true
            }
            for key in parents[shared...] {
                writer.writeKey(key.text, isFirst: !hasMembers)
                writer.beginObject()
                open.append(key)
                hasMembers = false
            }
            writer.writeKey(row.path.last?.text ?? "", isFirst: !hasMembers)
            writer.write(row.value)
            hasMembers = true
        }
        for _ in open { writer.endObject() }
        writer.endObject()
    }

    /// Whether the ranges are in order and do not overlap, as a server sends them.
    public static func areInOrder(_ ranges: [RangeMerge]) -> Bool {
        var last: Path?
        for (index, range) in ranges.enumerated() {
            if index > 0 {
                guard let last, let start = range.start, order(last, start) <= 0 else { return false }
            }
            if let start = range.start, let end = range.end, order(start, end) > 0 { return false }
            last = range.end
        }
        return true
    }

    /// Compares paths by component in key order; a prefix sorts before the longer path.
    static func order(_ left: Path, _ right: Path) -> Int {
        order(left.keys, right.keys)
    }

    /// Compares the keys of paths.
    static func order(_ left: [Key], _ right: [Key]) -> Int {
        for (first, second) in zip(left, right) {
            let order = first.order(against: second)
            if order != 0 { return order }
        }
        return left.count - right.count
    }
}
