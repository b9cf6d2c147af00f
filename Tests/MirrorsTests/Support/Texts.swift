import Testing
import Tree

@testable import Mirrors

/// Returns the single definition of a text.
func definition(_ text: String) throws -> MirrorDefinition {
    try #require(try MirrorDefinition.read(Array(text.utf8), source: "test").first)
}

/// Parses a value in export form.
func node(_ json: String) throws -> Node { try JSONParser.parse(json, maxDepth: 64) }

/// Formats a cell as tests write it.
func shown(_ cell: Cell) -> String {
    switch cell {
    case .null: "NULL"
    case .bool(let value): "\(value)"
    case .int(let value): "\(value)"
    case .double(let value): "\(value)"
    case .text(let value): "'\(value)'"
    case .timestamp(let value): "@\(value)"
    case .json(let value): String(decoding: value, as: UTF8.self)
    case .decimal(let value): "#\(value)"
    case .day(let value): "\(value)"
    case .uuid(let value): "uuid \(value)"
    case .texts(let value): "\(value)"
    }
}

/// Returns the records of a pattern in a tree, by a plain traversal.
func records(of root: Node, _ pattern: PathPattern) -> [[Key]: Node] {
    var found: [[Key]: Node] = [:]
    func visit(_ node: Node, _ parts: ArraySlice<PathPattern.Part>, _ keys: [Key]) {
        guard let part = parts.first else {
            if !node.isNull { found[keys] = node }
            return
        }
        guard case .branch(let branch) = node else { return }
        for entry in branch.children {
            switch part {
            case .key(let key): if key == entry.key { visit(entry.node, parts.dropFirst(), keys) }
            case .capture: visit(entry.node, parts.dropFirst(), keys + [entry.key])
            }
        }
    }
    visit(root, pattern.parts[...], [])
    return found
}
