import Crypto
import Tree

@testable import Wire

/// The model: all leaves of a tree, with the priorities of inner nodes as leaves named `.priority`, in depth-first key order.
struct ModelRows {
    typealias Row = LeafRow
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
struct ModelText {
    private var text: [UInt8] = []
    private var open: [Key] = []
    private var needsComma = false

    init() {}

    init(_ rows: ArraySlice<ModelRows.Row>) {
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
    mutating func append(_ row: ModelRows.Row) {
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
        default: node.appendLeafHashText(to: &text)
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
    static func modelApply(_ ranges: [RangeMerge], to node: Node) -> Node {
        var kept: [ModelRows.Row] = []
        var next = ranges[...]
        for row in ModelRows(node).rows {
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

extension CompoundHash {
    /// Creates the hashes of a client's value. The last part is empty, because the client does not know the data after
    /// its last leaf.
    ///
    /// - Parameter partBytes: a part ends with the leaf that makes its text longer than this.
    init?(modelOf node: Node, partBytes: Int) {
        var posts: [Path] = []
        var hashes: [String] = []
        var part = ModelText()
        var last: Path?
        for row in ModelRows(node).rows {
            part.append(row)
            last = row.path
            if part.byteCount > partBytes, !row.path.namesPriority {
                posts.append(row.path)
                hashes.append(part.hash)
                part = ModelText()
                last = nil
            }
        }
        if let last {
            posts.append(last)
            hashes.append(part.hash)
        }
        guard let hash = CompoundHash(posts: posts, hashes: hashes + [""]) else { return nil }
        self = hash
    }

    /// Creates the hashes of a client's value, with the part size that the SDKs use: a large value gets enough parts,
    /// but not too many.
    init?(modelOf node: Node) {
        let size = Double(JSONWriter.encode(node, form: .export).count)
        self.init(modelOf: node, partBytes: max(512, Int((size * 100).squareRoot())))
    }
}
