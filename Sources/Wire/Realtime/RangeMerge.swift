import Crypto
public import Tree

/// A range of a tree's leaves that replaces the client's leaves there (reference: rtdb-protocol 3.7).
public struct RangeMerge: Sendable, Equatable {
    /// The exclusive start; nil for the beginning of the tree.
    public let start: Path?
    /// The inclusive end; nil for the end of the tree.
    public let end: Path?
    /// The leaves of the range, in depth-first order.
    let rows: [LeafRows.Row]
    /// Leaves outside the range, in the same order. SDKs read the leaves of a range as a tree, in which a node without
    /// leaves has no priority, and they replace the priority of a leaf at the range's start. Such a leaf is repeated
    /// with its present value, and changes nothing else in a client.
    let repeated: [LeafRows.Row]

    init(start: Path?, end: Path?, rows: [LeafRows.Row], repeated: [LeafRows.Row] = []) {
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
    private var written: [LeafRows.Row] {
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

    /// Compares paths by component in key order; a prefix sorts before the longer path.
    static func order(_ left: Path, _ right: Path) -> Int {
        for (first, second) in zip(left.keys, right.keys) {
            let order = first.order(against: second)
            if order != 0 { return order }
        }
        return left.depth - right.depth
    }
}

/// All leaves of a tree, with the priorities of inner nodes as leaves named `.priority`, in depth-first key order.
struct LeafRows {
    struct Row: Equatable, Sendable {
        let path: Path
        /// A leaf, with its priority.
        let value: Node
    }
    private(set) var rows: [Row] = []

    init(_ node: Node) {
        var path = Path()
        walk(node, &path)
    }

    private mutating func walk(_ node: Node, _ path: inout Path) {
        guard case .branch(let branch) = node else {
            if !node.isNull { rows.append(Row(path: path, value: node)) }
            return
        }
        var priority: Node? = branch.priority.isNull ? nil : branch.priority
        for entry in branch.children {
            if let value = priority, Key.priority < entry.key {
                rows.append(Row(path: path.appending(.priority), value: value))
                priority = nil
            }
            path.append(entry.key)
            walk(entry.node, &path)
            path.removeLast()
        }
        if let priority { rows.append(Row(path: path.appending(.priority), value: priority)) }
    }
}

/// The text of a range, hash version 2.
struct RangeText {
    private var text: [UInt8] = []
    private var open: [Key] = []
    private var needsComma = false

    init() {}

    init(_ rows: ArraySlice<LeafRows.Row>) {
        for row in rows { append(row) }
    }

    /// The size of the text so far in bytes, without its closing parentheses.
    var byteCount: Int { text.count }

    /// The Base64 of the SHA-1; empty for an empty range.
    var hash: String {
        if text.isEmpty { return "" }
        let whole = text + [UInt8](repeating: UInt8(ascii: ")"), count: open.count + 1)
        return String(decoding: Base64.encode(Digest.sha1(whole)), as: UTF8.self)
    }

    /// Adds the next leaf in order.
    mutating func append(_ row: LeafRows.Row) {
        if text.isEmpty { text.append(UInt8(ascii: "(")) }
        var shared = 0
        while shared < open.count, shared < row.path.depth, open[shared] == row.path[shared] { shared += 1 }
        while open.count > shared {
            text.append(UInt8(ascii: ")"))
            open.removeLast()
            needsComma = true
        }
        for key in row.path.keys[shared...] {
            if needsComma { text.append(UInt8(ascii: ",")) }
            needsComma = false
            quoted(key.text)
            text.append(contentsOf: ":(".utf8)
            open.append(key)
        }
        let priority = row.value.priority
        if !priority.isNull {
            text.append(contentsOf: "priority:".utf8)
            leaf(priority)
            text.append(UInt8(ascii: ":"))
        }
        leaf(row.value.withoutPriority)
        needsComma = true
    }

    private mutating func leaf(_ node: Node) {
        switch node {
        case .string(let value):
            text.append(contentsOf: "string:".utf8)
            quoted(value)
        default: text.append(contentsOf: node.leafHashText)
        }
    }

    private mutating func quoted(_ value: String) {
        text.append(UInt8(ascii: "\""))
        for byte in value.utf8 {
            if byte == UInt8(ascii: "\\") || byte == UInt8(ascii: "\"") { text.append(UInt8(ascii: "\\")) }
            text.append(byte)
        }
        text.append(UInt8(ascii: "\""))
    }
}

extension RangeMerge {
    /// Returns a client's node after the ranges of one message, which must be in order. All leaves of the node in the
    /// ranges are replaced by the leaves of the ranges; its other leaves stay, even if the ranges repeat them
    /// (reference: rtdb-protocol 3.7).
    ///
    /// Linear in the leaves of the node and of the ranges, times their depth.
    public static func apply(_ ranges: [RangeMerge], to node: Node) -> Node {
        var kept: [LeafRows.Row] = []
        var next = ranges[...]
        for row in LeafRows(node).rows {
            while let range = next.first, range.ends(before: row.path) { next = next.dropFirst() }
            if let range = next.first, range.begins(before: row.path) { continue }
            kept.append(row)
        }
        let rows = kept + ranges.flatMap(\.rows)
        var tree = Node.null
        for row in rows where !row.path.namesPriority { tree = tree.replacing(row.path, with: row.value) }
        // Priorities come last, because only an existing node can have one.
        for row in rows where row.path.namesPriority { tree = tree.replacing(row.path, with: row.value) }
        return tree
    }

    private func begins(before path: Path) -> Bool { start.map { Self.order($0, path) < 0 } ?? true }

    private func ends(before path: Path) -> Bool { end.map { Self.order($0, path) < 0 } ?? false }
}
