public import Tree

/// The names of the headers between REST clients and the server (reference: rtdb-protocol 7.1, 7.4, 8). Names that
/// begin with `X-Pathmirror` are this server's own.
public enum RESTHeader {
    /// `true` requests the ETag of the data.
    public static let firebaseETag = "X-Firebase-ETag"
    /// The ETag of the data.
    public static let etag = "ETag"
    /// Permits the write only if the data has this ETag.
    public static let ifMatch = "If-Match"
    /// Requests the data only if it has another ETag.
    public static let ifNoneMatch = "If-None-Match"
    /// The method that a POST stands for.
    public static let methodOverride = "X-HTTP-Method-Override"
    /// The event id after which a stream resumes.
    public static let lastEventID = "Last-Event-ID"
    /// The seq of the tree that an answer reflects.
    public static let seq = "X-Pathmirror-Seq"
    /// The minimum seq of the tree that answers the request.
    public static let minSeq = "X-Pathmirror-Min-Seq"
}

/// The ETags with which REST clients compare values: the node hash, and `null_etag` for no value (reference:
/// rtdb-protocol 7.4).
public enum ETag {
    public static let null = "null_etag"

    /// Returns the ETag of a value.
    public static func of(_ node: Node) -> String { node.isNull ? null : node.hash }

    /// Returns the hash in an ETag of a request, which may be quoted.
    public static func hash(_ header: String) -> String {
        var text = header[...]
        if text.hasPrefix("\""), text.hasSuffix("\""), text.count > 1 { text = text.dropFirst().dropLast() }
        return text == null ? "" : String(text)
    }
}

/// Parses Accept-Encoding headers.
public enum AcceptEncoding {
    /// Returns whether gzip may be used: it is named, or covered by `*`, and its weight is not zero.
    public static func allowsGzip(_ header: String?) -> Bool {
        // Without a `*` or a `z` the header names none of `gzip`, `x-gzip` and `*`, and needs no parsing.
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
