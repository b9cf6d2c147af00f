import Runtime

/// The origin of a web page, as browsers state it.
enum WebOrigin: Sendable, Hashable {
    /// `null`: the browser hides the origin, as for pages from files and for sandboxed content of any page.
    case opaque
    /// `scheme://host:port`
    case site(scheme: String, Authority)

    /// Parses an `Origin` header; returns nil unless it is exactly one origin.
    init?(_ text: String) {
        if text == "null" {
            self = .opaque
            return
        }
        guard let (scheme, rest) = Self.split(text), let authority = Authority(rest) else { return nil }
        self = .site(scheme: scheme, authority.normalized(for: scheme))
    }

    /// Returns the origin of a URL, as in a `Referer` header.
    init?(url: String) {
        guard let (scheme, rest) = Self.split(url),
            let authority = Authority(rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" })
        else { return nil }
        self = .site(scheme: scheme, authority.normalized(for: scheme))
    }

    /// Returns the scheme in lower case and the text after `://`.
    static func split(_ text: String) -> (scheme: String, rest: Substring)? {
        guard let colon = text.firstIndex(of: ":"), text[colon...].hasPrefix("://") else { return nil }
        let scheme = text[..<colon].lowercased()
        guard let first = scheme.utf8.first, (0x61...0x7A).contains(first),
            scheme.utf8.allSatisfy({ byte in
                switch byte {
                case 0x61...0x7A, 0x30...0x39, 0x2B, 0x2D, 0x2E: true
                default: false
                }
            })
        else { return nil }
        return (scheme, text[text.index(colon, offsetBy: 3)...])
    }
}

/// Pages that an operator admits: those of one origin (`https://app.example:8443`), those of all names below an origin
/// (`https://*.app.example`), or those that hide their origin (`null`).
public struct AllowedOrigin: Sendable, Hashable {
    /// The reason why a text is not a valid origin, as one sentence without its full stop.
    public struct Mistake: Error, Sendable, Equatable {
        public let text: String
    }

    private let origin: WebOrigin
    /// Whether the origin stands for all names below its host, excluding the host itself.
    private let isBelow: Bool

    /// - Throws: `Mistake`, which explains the expected form.
    public init(_ text: String) throws(Mistake) {
        // Text copied from an address bar ends with a slash.
        let text = text.hasSuffix("/") ? String(text.dropLast()) : text
        guard text != "*" else {
            throw Mistake(text: "\"*\" would allow every page: name the allowed origins")
        }
        let starred = WebOrigin.split(text).flatMap { scheme, rest -> String? in
            rest.hasPrefix("*.") ? "\(scheme)://\(rest.dropFirst(2))" : nil
        }
        guard let origin = WebOrigin(starred ?? text) else {
            throw Mistake(
                text: "\"\(text)\" is not an origin: give scheme, host and, unless it is the scheme's default, port, "
                    + "such as http://app.test:3000 or https://*.app.example")
        }
        if starred != nil, case .site(_, let authority) = origin, authority.host.address != nil {
            throw Mistake(text: "\"\(text)\" is not an origin: an IP address has no subdomains")
        }
        self.origin = origin
        isBelow = starred != nil
    }

    /// Returns whether this origin admits a page.
    func admits(_ page: WebOrigin) -> Bool {
        guard isBelow, case .site(let scheme, let mine) = origin else { return page == origin }
        guard case .site(scheme, let other) = page else { return false }
        return other.port == mine.port && other.host.isBelow(mine.host)
    }

    /// Returns whether clients may call the gateway by this name. The hosts of admitted origins are trusted, even if
    /// their DNS resolves to this machine.
    func names(_ host: HostName) -> Bool {
        guard case .site(_, let authority) = origin else { return false }
        return isBelow ? host.isBelow(authority.host) : host == authority.host
    }
}

/// A host in a `Host` header, an origin or a request target: a name, or an address. Two hosts are equal if a browser
/// treats them as equal: names are in lower case and without a final dot, and addresses have only one form.
struct HostName: Sendable, Hashable {
    /// The host as in a URL, with IPv6 addresses in brackets.
    let text: String
    /// Nil for a name.
    let address: IPAddress?

    /// Returns nil if the text is not a host. Addresses are accepted in their usual form only: `127.1` and `2130706433`
    /// do not count as addresses, even if a resolver accepts them.
    init?(_ text: Substring) {
        if text.first == "[" {
            let inner = text.dropFirst().dropLast()
            guard text.last == "]", inner.contains(":"), let address = IPAddress(String(inner)) else { return nil }
            self.address = address
            self.text = address.isVersion4 ? address.description : "[\(address)]"
            return
        }
        var name = text.lowercased()
        if name.last == "." { name.removeLast() }
        guard (1...253).contains(name.utf8.count), name.utf8.allSatisfy(Self.isPlain),
            name.split(separator: ".", omittingEmptySubsequences: false).allSatisfy({ !$0.isEmpty })
        else { return nil }
        address = IPAddress(name)
        self.text = name
    }

    /// Returns whether the byte may be part of a name: `a` to `z`, digits, hyphens, dots, and underscores, which names
    /// of namespaces may contain.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
        default: false
        }
    }

    /// Whether the host is `localhost`, a name that ends in `.localhost`, in 127.0.0.0/8, or ::1. DNS cannot redirect
    /// these.
    var isLoopback: Bool { address?.isLoopback ?? (text == "localhost" || text.hasSuffix(".localhost")) }

    /// Returns whether this host is a name that ends in the other host's name, with at least one label before it.
    func isBelow(_ other: HostName) -> Bool { address == nil && text.hasSuffix("." + other.text) }
}

/// A host and a port, as in a `Host` header.
struct Authority: Sendable, Hashable {
    let host: HostName
    /// Nil for the scheme's default port.
    let port: UInt16?

    /// Parses `HOST` or `HOST:PORT`; returns nil for anything else, including text with a user name.
    init?(_ text: Substring) {
        var name = text
        var port: UInt16?
        let colon = text.lastIndex(of: ":")
        // A colon within brackets belongs to the address.
        if let colon, text.last != "]" {
            let digits = text[text.index(after: colon)...]
            guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
            if !digits.isEmpty {
                guard let number = UInt16(digits) else { return nil }
                port = number
            }
            name = text[..<colon]
        }
        guard let host = HostName(name) else { return nil }
        self.host = host
        self.port = port
    }

    init(host: HostName, port: UInt16?) {
        self.host = host
        self.port = port
    }

    /// Returns the authority without a port that is the scheme's default.
    func normalized(for scheme: String) -> Authority {
        Authority(host: host, port: port == Self.ports[scheme] ? nil : port)
    }

    private static let ports: [String: UInt16] = ["http": 80, "https": 443, "ws": 80, "wss": 443]
}
