public import Tree

/// The names of the headers by which REST clients and the server understand one another (reference: rtdb-protocol 7.1, 7.4,
/// 8; the ones that begin with `X-Pathmirror` are this server's own).
public enum RESTHeader {
    /// `true` asks for the tag of the data.
    public static let firebaseETag = "X-Firebase-ETag"
    /// The tag of the data.
    public static let etag = "ETag"
    /// The write is to be made only if the data has this tag.
    public static let ifMatch = "If-Match"
    /// The data is to be sent only if it has another tag.
    public static let ifNoneMatch = "If-None-Match"
    /// The method that a POST stands for.
    public static let methodOverride = "X-HTTP-Method-Override"
    /// The id behind which a stream is to go on.
    public static let lastEventID = "Last-Event-ID"
    /// The seq of the tree that an answer is of.
    public static let seq = "X-Pathmirror-Seq"
    /// The least seq that the tree must have which a request is answered from.
    public static let minSeq = "X-Pathmirror-Min-Seq"
}

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

/// What an Accept-Encoding header allows.
public enum AcceptEncoding {
    /// Whether gzip may be used: named, or covered by `*`, and not with a weight of zero.
    public static func allowsGzip(_ header: String?) -> Bool {
        // What names none of `gzip`, `x-gzip` and `*` needs not be taken apart.
        guard let header, header.utf8.contains(where: { $0 == 0x2A || $0 | 0x20 == 0x7A }) else { return false }
        var wildcard = false
        for item in header.lowercased().split(separator: ",") {
            let parts = item.split(separator: ";").map { part in
                String(part.drop { $0 == " " || $0 == "\t" }.prefix { $0 != " " && $0 != "\t" })
            }
            let isRefused = parts.dropFirst().contains { part in
                part.hasPrefix("q=") && Double(part.dropFirst(2)) == 0
            }
            switch parts.first {
            case "gzip", "x-gzip": return !isRefused
            case "*": wildcard = !isRefused
            default: break
            }
        }
        return wildcard
    }
}
