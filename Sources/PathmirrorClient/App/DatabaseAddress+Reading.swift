extension DatabaseAddress {
    /// A URL for a message that anybody may read: without a user's name and password, and without its query, in which
    /// people write tokens.
    static func shown(_ url: String) -> String {
        var shown = String(url.prefix { $0 != "?" && $0 != "#" })
        let isCut = shown.utf8.count < url.utf8.count
        let start = shown.firstRange(of: "://")?.upperBound ?? shown.startIndex
        if let at = shown[start...].prefix(while: { $0 != "/" }).lastIndex(of: "@") {
            shown.replaceSubrange(start..<at, with: "…")
        }
        return isCut ? shown + "?…" : shown
    }

    /// Whether a URL says by `ns` which database of its server is meant.
    static func namesDatabase(_ url: String) -> Bool {
        let query = url.prefix { $0 != "#" }.drop { $0 != "?" }.dropFirst()
        return query.split(separator: "&").contains { $0.hasPrefix("ns=") }
    }

    /// The host that a text names: an IPv6 address without its brackets.
    static func plain(_ host: String) -> String {
        host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
    }

    /// Whether a text can be a host: an IPv6 address, or something without what separates the parts of a URL.
    static func isHost(_ host: String) -> Bool {
        guard !host.isEmpty, host.utf8.count <= 300 else { return false }
        if host.utf8.contains(UInt8(ascii: ":")) {
            let address = host.prefix { $0 != "%" }
            return address.utf8.allSatisfy { byte in
                (0x30...0x3A).contains(byte) || (0x61...0x66).contains(byte | 0x20) || byte == 0x2E
            }
        }
        return host.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F && !"/\\?#@[]\"<>".utf8.contains($0) }
    }
}
