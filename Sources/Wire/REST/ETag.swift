public import Tree

/// The tags by which REST clients compare values: the node hash, and `null_etag` for nothing (reference: rtdb-protocol 7.4).
public enum ETag {
    public static let null = "null_etag"

    /// The tag of a value.
    public static func of(_ node: Node) -> String { node.isNull ? null : node.hash }

    /// The hash that a tag from a request names; quotes around it are allowed.
    public static func hash(_ header: String) -> String {
        var text = header[...]
        if text.hasPrefix("\""), text.hasSuffix("\""), text.count > 1 { text = text.dropFirst().dropLast() }
        return text == null ? "" : String(text)
    }
}
