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
