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
