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
