internal import Tree

/// Parses a rules document into its nodes (reference: security-rules 1, 12). Mistakes that leave the text readable are
/// collected, so that an upload reports all of them. An unreadable text throws.
struct DocumentParser {
    private var reader: TextReader
    private(set) var errors: [TextError] = []

    init(_ bytes: [UInt8]) { reader = TextReader(bytes) }

    mutating func document() throws(TextError) -> SourceNode {
        try reader.skipSpace()
        guard reader.peek == UInt8(ascii: "{") else { throw reader.noObject() }
        let brace = reader.index
        var root: SourceNode?
        var collected: [TextError] = []
        try reader.members { (reader, key, offset) throws(TextError) in
            guard key == "rules", root == nil else { throw reader.error("Expected 'rules' property.", at: offset) }
            guard reader.peek == UInt8(ascii: "{") else { throw reader.noObject() }
            root = try Self.node(&reader, captures: [], &collected)
        }
        try reader.skipSpace()
        if reader.peek != nil { throw reader.error("Parse error.") }
        errors = collected
        guard let root else { throw reader.error("Expected 'rules' property.", at: brace) }
        return root
    }

    private static let keyMessage = "String can't contain \".\", \"#\", \"$\", \"/\", \"[\", or \"]\""

    /// Reads the node whose brace is next. `captures` contains the names in scope.
    private static func node(
        _ reader: inout TextReader, captures: [String], _ errors: inout [TextError]
    ) throws(TextError) -> SourceNode {
        guard captures.count < TextReader.maxNesting, reader.nesting < TextReader.maxNesting else {
            throw reader.error("The document is nested too deeply.")
        }
        reader.nesting += 1
        defer { reader.nesting -= 1 }
        var node = SourceNode()
        var seen: Set<Key> = []
        try reader.members { (reader, key, offset) throws(TextError) in
            if !seen.insert(Key(key)).inserted { errors.append(reader.error("Duplicate key '\(key)'.", at: offset)) }
            if let kind = RuleKind(rawValue: key) {
                if let text = try ruleText(&reader, &errors) { node.rules.append(SourceRule(kind: kind, text: text)) }
            } else if key == ".indexOn" {
                node.indexes = try indexes(&reader, &errors)
            } else if reader.peek != UInt8(ascii: "{") {
                errors.append(reader.noObject())
                try reader.skipValue()
            } else if key.utf8.first == UInt8(ascii: "$"), key.utf8.count > 1, isPlain(key.dropFirst()) {
                try wildcard(key, offset, in: &node, &reader, captures: captures, &errors)
            } else {
                if key.isEmpty || !isPlain(key[...]) { errors.append(reader.error(keyMessage, at: offset)) }
                let child = try Self.node(&reader, captures: captures, &errors)
                node.children.append(SourceChild(key: Key(key), node: child))
            }
        }
        return node
    }

    private static func wildcard(
        _ name: String, _ offset: Int, in node: inout SourceNode, _ reader: inout TextReader, captures: [String],
        _ errors: inout [TextError]
    ) throws(TextError) {
        if let other = node.wildcard, other.name != name {
            errors.append(
                reader.error("Cannot have multiple default rules ('\(other.name)' and '\(name)').", at: offset))
        }
        if captures.contains(name) {
            errors.append(reader.error("The variable '\(name)' is already bound by a node above.", at: offset))
        }
        let child = try Self.node(&reader, captures: captures + [name], &errors)
        node.wildcard = SourceWildcard(name: name, offset: offset, node: child)
    }

    private static func isPlain(_ key: Substring) -> Bool {
        key.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "."), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "/"), UInt8(ascii: "["),
                UInt8(ascii: "]"):
                false
            default: true
            }
        }
    }

    /// Reads the text of a rule: an expression string, or a bare `true` or `false`.
    private static func ruleText(
        _ reader: inout TextReader, _ errors: inout [TextError]
    ) throws(TextError) -> ExpressionText? {
        let offset = reader.index
        if reader.peek == UInt8(ascii: "\"") { return try reader.string() }
        if reader.peek != UInt8(ascii: "{"), reader.peek != UInt8(ascii: "[") {
            let word = try reader.scalar()
            if word.elementsEqual("true".utf8) || word.elementsEqual("false".utf8) {
                return ExpressionText(bytes: Array(word), start: offset, offsets: nil)
            }
        } else {
            try reader.skipValue()
        }
        errors.append(
            reader.error(
                "Invalid rule expression.  Expected 'true', 'false', or an expression string.", at: offset))
        return nil
    }

    private static func indexes(
        _ reader: inout TextReader, _ errors: inout [TextError]
    ) throws(TextError) -> [String] {
        let offset = reader.index
        var names: [String] = []
        var isValid = true
        switch reader.peek {
        case UInt8(ascii: "\""): names = [try reader.string().string]
        case UInt8(ascii: "["):
            try reader.elements { (reader) throws(TextError) in
                if reader.peek == UInt8(ascii: "\"") {
                    names.append(try reader.string().string)
                } else {
                    isValid = false
                    try reader.skipValue()
                }
            }
        default:
            isValid = false
            try reader.skipValue()
        }
        if !isValid {
            errors.append(
                reader.error(
                    "Invalid indexOn expression. Must be either a string or an array of strings", at: offset))
        }
        return names
    }
}

/// The kind of a rule.
public enum RuleKind: String, Sendable, CaseIterable {
    case read = ".read"
    case write = ".write"
    case validate = ".validate"
}

/// A node of the rules document as written, with expressions as text.
struct SourceNode {
    var rules: [SourceRule] = []
    var indexes: [String] = []
    var children: [SourceChild] = []
    var wildcard: SourceWildcard?
}

/// A child with a literal key.
struct SourceChild {
    let key: Key
    let node: SourceNode
}

struct SourceRule {
    let kind: RuleKind
    let text: ExpressionText
}

/// A `$name` child. A class, because a node can't contain a node.
final class SourceWildcard {
    /// The name with the dollar sign.
    let name: String
    let offset: Int
    let node: SourceNode

    init(name: String, offset: Int, node: SourceNode) {
        self.name = name
        self.offset = offset
        self.node = node
    }
}

/// An expression without its escapes, and the offset of each of its bytes in the document.
struct ExpressionText {
    let bytes: [UInt8]
    /// The document offset of the first byte.
    let start: Int
    /// The document offset of each byte and of the end. Nil if there are no escapes, so that the bytes follow each other.
    let offsets: [Int32]?

    /// Returns the document offset of the expression's byte at `offset`, which may be the end.
    func documentOffset(_ offset: Int) -> Int {
        guard let offsets else { return start + offset }
        return offset < offsets.count ? Int(offsets[offset]) : start
    }

    var string: String { String(decoding: bytes, as: UTF8.self) }
}
