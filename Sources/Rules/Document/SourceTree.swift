internal import Tree

/// What a rule decides.
public enum RuleKind: String, Sendable, CaseIterable {
    case read = ".read"
    case write = ".write"
    case validate = ".validate"
}

/// A node of the rules document as written: expressions are still text.
struct SourceNode {
    var rules: [SourceRule] = []
    var indexes: [String] = []
    var children: [SourceChild] = []
    var wildcard: SourceWildcard?
}

/// A child with a name of its own.
struct SourceChild {
    let key: Key
    let node: SourceNode
}

struct SourceRule {
    let kind: RuleKind
    let text: ExpressionText
}

/// A `$name` child. Boxed, as a node cannot hold a node.
final class SourceWildcard {
    /// With the dollar sign.
    let name: String
    let offset: Int
    let node: SourceNode

    init(name: String, offset: Int, node: SourceNode) {
        self.name = name
        self.offset = offset
        self.node = node
    }
}

/// An expression with its escapes undone, and where each of its bytes stands in the document.
struct ExpressionText {
    let bytes: [UInt8]
    /// Where the first byte stands.
    let start: Int
    /// Where each byte stands, one past the last included; nil when they follow each other without escapes.
    let offsets: [Int32]?

    /// The place in the document of the expression's byte at `offset`, the end included.
    func documentOffset(_ offset: Int) -> Int {
        guard let offsets else { return start + offset }
        return offset < offsets.count ? Int(offsets[offset]) : start
    }

    var string: String { String(decoding: bytes, as: UTF8.self) }
}
