internal import Tree
internal import Wire

/// The address of a database: its server, and its name on that server.
struct DatabaseAddress: Sendable, Hashable {
    var host: String
    var port: UInt16
    var isSecure: Bool
    /// The database's name on its server.
    var namespace: String

    /// Parses `https://HOST[:PORT][/PATH][?ns=NAME]`; `http` and `ws` mean no TLS. Without `ns`, the database's name is the first
    /// label of a host name with at least three labels, and otherwise `default`.
    static func parse(_ text: String) throws(InvalidArgument) -> (address: DatabaseAddress, path: Path) {
        var rest = text[...]
        var isSecure = true
        if let end = rest.firstRange(of: "://") {
            switch rest[..<end.lowerBound].lowercased() {
            case "https", "wss": isSecure = true
            case "http", "ws": isSecure = false
            default:
                throw InvalidArgument(
                    "\"\(shown(text))\" is not the URL of a database: it begins with neither https:// nor http://")
            }
            rest = rest[end.upperBound...]
        }
        let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        rest = rest[authority.endIndex...]
        let pathText = rest.prefix { $0 != "?" && $0 != "#" }
        let query = rest[pathText.endIndex...].dropFirst().prefix { $0 != "#" }
        let (host, port) = try split(authority, isSecure: isSecure, of: text)
        let named = query.split(separator: "&").first { $0.hasPrefix("ns=") }?.dropFirst(3)
        let name = try named.map { (part) throws(InvalidArgument) in try decoded(part) } ?? Self.namespace(of: host)
        guard named == nil || isName(name) else {
            throw InvalidArgument(
                "\"\(text)\" names no database: ns has 1 to 64 letters, digits, - and _")
        }
        var keys: [Key] = []
        for part in pathText.split(separator: "/") { keys.append(Key(try decoded(part))) }
        let path = Path(keys)
        try PathText.check(path, allowsInfo: true)
        return (DatabaseAddress(host: host, port: port, isSecure: isSecure, namespace: name), path)
    }

    /// Parses the URL of a whole database, as `parse` does. Rejects a URL with a path.
    static func ofDatabase(_ text: String) throws(InvalidArgument) -> DatabaseAddress {
        let (address, path) = try parse(text)
        guard path.isRoot else {
            throw InvalidArgument(
                "\"\(shown(text))\" has a path: leave the path out here, and use reference(withPath:) or reference(fromURL:)"
            )
        }
        return address
    }

    /// Returns whether servers accept a name.
    private static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
                default: false
                }
            }
    }

    private static func split(
        _ authority: Substring, isSecure: Bool, of text: String
    ) throws(InvalidArgument) -> (String, UInt16) {
        // `[::1]:9000`
        var host = authority
        var portText: Substring?
        if authority.first == "[", let end = authority.firstIndex(of: "]") {
            host = authority[authority.index(after: authority.startIndex)..<end]
            let after = authority[authority.index(after: end)...]
            if after.first == ":" { portText = after.dropFirst() }
        } else if let colon = authority.lastIndex(of: ":") {
            host = authority[..<colon]
            portText = authority[authority.index(after: colon)...]
        }
        guard isHost(String(host)) else {
            throw InvalidArgument("\"\(shown(text))\" is not the URL of a database: it has no host")
        }
        guard let portText else { return (host.lowercased(), isSecure ? 443 : 80) }
        guard let port = UInt16(portText), port > 0 else {
            throw InvalidArgument("\"\(shown(text))\" has an invalid port")
        }
        return (host.lowercased(), port)
    }

    private static func namespace(of host: String) -> String {
        let labels = host.split(separator: ".")
        let isAddress = host.contains(":") || labels.allSatisfy { UInt8($0) != nil }
        return labels.count >= 3 && !isAddress ? String(labels[0]) : "default"
    }

    /// Returns a decoded part of a URL. A `+` is a space, as in Firebase's SDKs and in the gateway's REST API.
    private static func decoded(_ part: Substring) throws(InvalidArgument) -> String {
        guard let bytes = PercentEncoding.decode(part.utf8, plusIsSpace: true) else {
            throw InvalidArgument("\"\(part)\" is not percent-encoded correctly")
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The origin `http://host:port`, without a default port.
    var origin: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return "\(isSecure ? "https" : "http")://\(name)" + (port == (isSecure ? 443 : 80) ? "" : ":\(port)")
    }

    /// Returns the URL of a path.
    func url(of path: Path) -> String {
        let query = namespace == Self.namespace(of: host) ? "" : "?ns=\(PercentEncoding.encode(namespace.utf8))"
        return origin + path.keys.map { "/" + PercentEncoding.encode($0.text.utf8) }.joined() + query
    }
}

extension DatabaseAddress {
    /// Returns a URL for public messages: without user name and password, and without the query, which may contain a token.
    static func shown(_ url: String) -> String {
        var shown = String(url.prefix { $0 != "?" && $0 != "#" })
        let isCut = shown.utf8.count < url.utf8.count
        let start = shown.firstRange(of: "://")?.upperBound ?? shown.startIndex
        if let at = shown[start...].prefix(while: { $0 != "/" }).lastIndex(of: "@") {
            shown.replaceSubrange(start..<at, with: "…")
        }
        return isCut ? shown + "?…" : shown
    }

    /// Returns whether a URL names the database with `ns`.
    static func namesDatabase(_ url: String) -> Bool {
        let query = url.prefix { $0 != "#" }.drop { $0 != "?" }.dropFirst()
        return query.split(separator: "&").contains { $0.hasPrefix("ns=") }
    }

    /// Returns the host without the brackets of an IPv6 address.
    static func plain(_ host: String) -> String {
        host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
    }

    /// Returns whether a string can be a host: an IPv6 address, or a name without separators of URLs.
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
