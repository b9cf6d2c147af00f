import Runtime

/// Where a web page comes from, as browsers say it.
enum WebOrigin: Sendable, Hashable {
    /// `null`: the browser doesn't say. Pages from files are such, and whatever another page puts into a sandbox: anybody's.
    case opaque
    /// `scheme://host:port`
    case site(scheme: String, Authority)

    /// Reads an `Origin` header; nil for anything but one origin.
    init?(_ text: String) {
        if text == "null" {
            self = .opaque
            return
        }
        guard let (scheme, rest) = Self.split(text), let authority = Authority(rest) else { return nil }
        self = .site(scheme: scheme, authority.normalized(for: scheme))
    }

    /// The origin of a URL, as in a `Referer` header.
    init?(url: String) {
        guard let (scheme, rest) = Self.split(url),
            let authority = Authority(rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" })
        else { return nil }
        self = .site(scheme: scheme, authority.normalized(for: scheme))
    }

    /// The scheme in lower case, and what stands behind `://`.
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

/// Pages that an operator lets in: those of one origin (`https://app.example:8443`), those of all names below one
/// (`https://*.app.example`), or those that don't say where they come from (`null`).
public struct AllowedOrigin: Sendable, Hashable {
    /// Why a text is none, in one sentence without its end.
    public struct Mistake: Error, Sendable, Equatable {
        public let text: String
    }

    private let origin: WebOrigin
    /// Whether names below the origin's are meant, and not its own.
    private let isBelow: Bool

    /// - Throws: `Mistake`, which says how it is to be written.
    public init(_ text: String) throws(Mistake) {
        // Copied from an address bar it ends so.
        let text = text.hasSuffix("/") ? String(text.dropLast()) : text
        guard text != "*" else {
            throw Mistake(text: "\"*\" would let every page in: name those that may")
        }
        let starred = WebOrigin.split(text).flatMap { scheme, rest -> String? in
            rest.hasPrefix("*.") ? "\(scheme)://\(rest.dropFirst(2))" : nil
        }
        guard let origin = WebOrigin(starred ?? text) else {
            throw Mistake(
                text: "\"\(text)\" is no origin: write scheme, host and, unless it is the scheme's own, port, "
                    + "such as http://app.test:3000 or https://*.app.example")
        }
        if starred != nil, case .site(_, let authority) = origin, authority.host.address != nil {
            throw Mistake(text: "\"\(text)\" is no origin: there is nothing below an address")
        }
        self.origin = origin
        isBelow = starred != nil
    }

    /// Whether pages from there are meant.
    func admits(_ page: WebOrigin) -> Bool {
        guard isBelow, case .site(let scheme, let mine) = origin else { return page == origin }
        guard case .site(scheme, let other) = page else { return false }
        return other.port == mine.port && other.host.isBelow(mine.host)
    }

    /// Whether the gateway may be called by this name: pages of an origin that is let in may lead anywhere anyway.
    func names(_ host: HostName) -> Bool {
        guard case .site(_, let authority) = origin else { return false }
        return isBelow ? host.isBelow(authority.host) : host == authority.host
    }
}

/// A host as it stands in a `Host` header, an origin or a request target: a name, or an address. Equal where a browser would
/// take them for the same: in lower case, without the dot that may end a name, addresses in one form only.
struct HostName: Sendable, Hashable {
    /// As it stands in a URL, addresses of IPv6 in brackets.
    let text: String
    /// Nil for a name.
    let address: IPAddress?

    /// Nil for what is no host. Addresses are taken in their usual form alone: `127.1` and `2130706433` are no address here,
    /// whatever a resolver would make of them.
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

    /// Letters (in lower case), digits, hyphens, dots, and the underscores that names of namespaces may have.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
        default: false
        }
    }

    /// `localhost`, names that end in `.localhost`, 127.0.0.0/8, ::1. No DNS has a say in what these are.
    var isLoopback: Bool { address?.isLoopback ?? (text == "localhost" || text.hasSuffix(".localhost")) }

    /// Whether it is a name that ends in another's, with at least one label before that.
    func isBelow(_ other: HostName) -> Bool { address == nil && text.hasSuffix("." + other.text) }
}

/// A host and a port, as in a `Host` header.
struct Authority: Sendable, Hashable {
    let host: HostName
    /// Nil where it is the scheme's own.
    let port: UInt16?

    /// Reads `HOST`, `HOST:PORT`; nil for anything else, also where there is a user name.
    init?(_ text: Substring) {
        var name = text
        var port: UInt16?
        let colon = text.lastIndex(of: ":")
        // Within brackets a colon is the address's.
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

    /// The same without a port that goes without saying.
    func normalized(for scheme: String) -> Authority {
        Authority(host: host, port: port == Self.ports[scheme] ? nil : port)
    }

    private static let ports: [String: UInt16] = ["http": 80, "https": 443, "ws": 80, "wss": 443]
}
