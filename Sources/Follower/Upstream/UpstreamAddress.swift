internal import Wire

/// The address of an upstream database: its server, and its name on that server.
public struct UpstreamAddress: Sendable, Equatable, CustomStringConvertible {
    /// A host name or an IP address, in lower case and without brackets.
    public let host: String
    public let port: UInt16
    public let isSecure: Bool
    /// The database's name on its server.
    public let namespace: String

    /// Parses `https://HOST[:PORT][/][?ns=NAME]`. Without `ns`, the name is the first label of a host name with at least
    /// three labels.
    ///
    /// - Throws: `invalidUpstream`, with a text that contains neither user name, password nor query.
    public init(_ text: String) throws(FollowError) {
        guard let end = text.firstRange(of: "://") else {
            throw .invalidUpstream("it does not begin with https:// or http://")
        }
        switch text[..<end.lowerBound].lowercased() {
        case "https": isSecure = true
        case "http": isSecure = false
        default: throw .invalidUpstream("it does not begin with https:// or http://")
        }
        let rest = text[end.upperBound...]
        let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        let path = rest[authority.endIndex...].prefix { $0 != "?" && $0 != "#" }
        let query = rest[path.endIndex...].dropFirst().prefix { $0 != "#" }
        guard path.isEmpty || path == "/" else {
            throw .invalidUpstream("it has a path, but a namespace follows a whole database: leave the path out")
        }
        guard !authority.contains("@") else {
            throw .invalidUpstream("it has a user name: pass credentials in a file with --credentials")
        }
        (host, port) = try Self.split(authority, isSecure: isSecure)
        namespace = try Self.namespace(query, host)
    }

    private static func split(_ authority: Substring, isSecure: Bool) throws(FollowError) -> (String, UInt16) {
        var host = authority
        var portText: Substring?
        if authority.first == "[", let end = authority.firstIndex(of: "]") {
            host = authority[authority.index(after: authority.startIndex)..<end]
            let rest = authority[authority.index(after: end)...]
            guard rest.isEmpty || rest.first == ":" else { throw .invalidUpstream("its host is invalid") }
            if !rest.isEmpty { portText = rest.dropFirst() }
        } else if let colon = authority.lastIndex(of: ":") {
            host = authority[..<colon]
            portText = authority[authority.index(after: colon)...]
        }
        let isHost = host.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
            case 0x3A: authority.first == "["
            default: false
            }
        }
        guard !host.isEmpty, host.utf8.count <= 253, isHost else { throw .invalidUpstream("its host is invalid") }
        guard let portText else { return (host.lowercased(), isSecure ? 443 : 80) }
        guard portText.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let port = UInt16(portText), port > 0 else {
            throw .invalidUpstream("its port is invalid")
        }
        return (host.lowercased(), port)
    }

    private static func namespace(_ query: Substring, _ host: String) throws(FollowError) -> String {
        if let part = query.split(separator: "&").first(where: { $0.hasPrefix("ns=") })?.dropFirst(3) {
            let isName =
                (1...64).contains(part.utf8.count)
                && part.utf8.allSatisfy { byte in
                    switch byte {
                    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
                    default: false
                    }
                }
            guard isName else {
                throw .invalidUpstream("its parameter ns must have 1 to 64 letters, digits, - and _")
            }
            return String(part)
        }
        let labels = host.split(separator: ".")
        let isNumeric = host.contains(":") || labels.allSatisfy { UInt8($0) != nil }
        guard labels.count >= 3, !isNumeric, labels[0].utf8.count <= 64 else {
            throw .invalidUpstream("it names no database: add ?ns=NAME")
        }
        return String(labels[0])
    }

    /// The origin `https://host:port`, without a default port.
    public var origin: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return "\(isSecure ? "https" : "http")://\(name)" + (port == (isSecure ? 443 : 80) ? "" : ":\(port)")
    }

    /// The domain of the upstream's other hosts, to which it may redirect; empty if there is none.
    var domain: String {
        let labels = host.split(separator: ".").dropFirst()
        guard labels.count >= 2, !host.contains(":"), labels.last?.contains(where: \.isLetter) == true else {
            return ""
        }
        return labels.joined(separator: ".")
    }

    /// The address as a URL that this type parses. It contains no secret.
    public var description: String { "\(origin)/?ns=\(namespace)" }

    /// The URL of a REST request.
    ///
    /// - Parameters:
    ///   - path: percent-encoded, from the root, with `.json`.
    ///   - query: percent-encoded parameters besides `ns`.
    func url(_ path: String, _ query: [String] = []) -> String {
        "\(origin)\(path)?" + (["ns=\(namespace)"] + query).joined(separator: "&")
    }
}
