import Engine
import Mirrors
import Rules
import TestSupport
import Tree

/// Generates random definitions, and random writes that affect them.
struct MirrorGenerator {
    var tree: TreeGenerator
    private static let patterns = [
        "/{k}", "/a/{k}", "/a/{k}", "/{k}/a", "/{j}/{k}", "/a/{k}/b", "/a b/{j}/{k}", "/a/{j}/b/{k}", "/{i}/{j}/{k}",
    ]
    private static let fields = ["a", "b", "0", "é", "a b", "2026-01-31", "2026-02-30"]

    init(seed: UInt64) { tree = TreeGenerator(seed: seed) }

    mutating func pattern() -> String { tree.random.pick(Self.patterns) }

    /// - Parameters:
    ///   - fixed: The pattern, with keys of type text, or nil for a random pattern.
    ///   - more: Further members.
    ///   - isWhole: Whether every record gives a row.
    mutating func definition(
        _ name: String, at fixed: String? = nil, _ more: String = "", allRecords isWhole: Bool = false
    ) throws -> MirrorDefinition {
        let pattern = fixed ?? pattern()
        var text = "{\"name\": \"\(name)\", \"path\": \"\(pattern)\"\(more)"
        if !isWhole, tree.random.oneIn(3) {
            text += ", \"filter\": \"\(tree.random.pick(PlainProjection.filters.keys.sorted()))\""
        }
        if fixed == nil, tree.random.oneIn(5) {
            text += ", \"keys\": {\"k\": \"\(tree.random.pick(["bigint", "date"]))\"}"
        }
        var columns: [String] = []
        for index in 0..<tree.random.below(6) { columns.append(column(index, mayRefuse: !isWhole)) }
        text += ", \"columns\": {\(columns.joined(separator: ", "))}"
        if tree.random.oneIn(2) { text += ", \"rest\": \"rest\"" }
        text += ", \"indexes\": [[\"_seq\"]]}"
        guard let definition = try MirrorDefinition.read(Array(text.utf8), source: text).first else {
            throw MirrorError.refused("no definition")
        }
        return definition
    }

    private mutating func column(_ index: Int, mayRefuse: Bool) -> String {
        let type = tree.random.pick(ColumnType.allCases)
        var path = "."
        switch tree.random.below(8) {
        case 0: break
        case 1: path = tree.random.pick(Self.fields) + "/" + tree.random.pick(Self.fields)
        case 2: path = tree.random.oneIn(2) ? ".priority" : tree.random.pick(Self.fields) + "/.priority"
        default: path = tree.random.pick(Self.fields)
        }
        var text = "\"c\(index)\": {\"type\": \"\(type.rawValue)\", \"path\": \"\(path)\""
        let defaults: [ColumnType: String] = [
            .text: "\"none\"", .bigint: "7", .double: "0.5", .numeric: "\"1.25\"", .boolean: "true",
            .timestamp: "\"2020-01-01\"", .date: "\"2020-01-01\"", .uuid: "\"00000000-0000-0000-0000-000000000001\"",
        ]
        if tree.random.oneIn(3), let value = defaults[type] {
            text += ", \"default\": \(value)"
            if tree.random.oneIn(2) { text += ", \"not null\": \"default\"" }
        } else if mayRefuse, tree.random.oneIn(4) {
            text += ", \"not null\": \"\(tree.random.oneIn(2) ? "skip" : "error")\""
        }
        return text + "}"
    }

    private mutating func field() -> Key { Key(tree.random.pick(Self.fields)) }

    /// Returns a value that may fit a column.
    private mutating func value() -> Node {
        switch tree.random.below(12) {
        case 0: .int(1_700_000_000_000 + Int64(tree.random.below(1_000_000)))
        case 1:
            .string(tree.random.pick(["2026-01-31", "2026-02-30", "2026-01-31T23:59:58Z", "1999-12-31 12:30", "x"]))
        case 2: .string("0E0E0E0E-1111-2222-3333-44444444444\(tree.random.below(10))")
        case 3: Node(children: (0..<3).map { _ in (tree.key(), Node.bool(!tree.random.oneIn(6))) })
        case 4: Node(children: [(Key("0"), .string(tree.text())), (Key("1"), .string("b"))])
        case 5: .string(tree.random.pick(["12", "12.50", "1e5", "-"]))
        case 6: .int(-62_135_596_800_001)
        case 7: tree.tree(depth: 2)
        default: tree.leaf()
        }
    }

    /// Returns a value for a path of some depth: records, and data around them.
    private mutating func subtree(_ depth: Int) -> Node {
        if depth == 0 { return value() }
        return Node(
            children: (0..<(1 + tree.random.below(5))).map { _ in
                (tree.random.oneIn(2) ? field() : tree.key(), subtree(depth - 1))
            }, priority: tree.random.oneIn(6) ? tree.priority() : .null)
    }

    private mutating func path(_ atMost: Int) -> Path {
        Path((0..<tree.random.below(atMost + 1)).map { _ in tree.random.oneIn(4) ? tree.key() : field() })
    }

    mutating func write() -> Write {
        switch tree.random.below(12) {
        case 0: return tree.write()
        case 1: return Write.set(path(3).description, .null)
        case 2:
            let path = path(4).appending(.priority)
            return Write(.set(path, tree.priority()), operation: .set, byteCount: 16, auth: .admin)
        case 3, 4:
            let base = path(2)
            var changes: [Change] = []
            for _ in 0..<4 {
                let path = base.appending(field()).appending(path(2))
                guard !changes.contains(where: { $0.path.contains(path) || path.contains($0.path) }) else { continue }
                changes.append(Change(path: path, value: tree.random.oneIn(4) ? .null : subtree(tree.random.below(3))))
            }
            return Write(.update(base: base, changes), operation: .update, byteCount: 64, auth: .admin)
        default:
            let path = path(5)
            return Write.set(path.description, subtree(max(0, tree.random.below(5) - path.depth)))
        }
    }

    /// Returns a write to records below `/a` and their children, arrays in `a` and maps in `b`. Sometimes writes all
    /// records, or any value.
    mutating func childWrite() -> Write {
        let parent = "/a/\(tree.random.pick(["p", "q", "é"]))"
        let number = tree.random.below(4)
        switch tree.random.below(10) {
        case 0: return write()
        case 1: return Write.set(parent, .null)
        case 2: return Write.set("\(parent)/a", Node(children: (0...number).map { (Key("\($0)"), tree.leaf()) }))
        case 3: return Write.set("\(parent)/a/\(number)", tree.random.oneIn(3) ? .null : tree.leaf())
        case 4: return Write.set("\(parent)/b/\(number)", tree.random.oneIn(3) ? .null : subtree(1))
        case 5: return Write.set("\(parent)/b/x/\(number)", value())
        case 6: return Write.set("\(parent)/b", subtree(2))
        case 7: return Write.set("/a", subtree(tree.random.below(4)))
        default: return Write.set(parent, subtree(2))
        }
    }
}
