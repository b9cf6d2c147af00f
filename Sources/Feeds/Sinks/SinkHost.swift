/// Which server a sink's address names.
enum SinkHost {
    /// The name or address in `nats://host:port`, `host:port` or `[::1]:port`; the whole text where it is none of these, which no exception is
    /// for.
    static func name(ofServer text: String) -> String {
        var rest = text[...]
        if let scheme = rest.firstRange(of: "://") { rest = rest[scheme.upperBound...] }
        if rest.first == "[" {
            guard let end = rest.firstIndex(of: "]") else { return text }
            let behind = rest[rest.index(after: end)...]
            return behind.isEmpty || behind.first == ":" ? String(rest[rest.index(after: rest.startIndex)..<end]) : text
        }
        guard let colon = rest.firstIndex(of: ":") else { return String(rest) }
        // A second colon leaves it to each library where the port begins.
        return rest[rest.index(after: colon)...].contains(":") ? text : String(rest[..<colon])
    }
}
