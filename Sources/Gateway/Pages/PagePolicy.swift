/// The web pages that may use the gateway, and the names under which clients may call it.
///
/// A browser lets every page send requests to every address that the browser can reach, including this machine. It
/// sends requests for scripts, images and WebSockets without asking the server. It sends any request to a name that the
/// page's owner has DNS resolve to this machine. That is harmless if credentials protect the data. If being on this
/// machine grants access, as in `dev`, the gateway has to check the page.
public struct PagePolicy: Sendable {
    private enum Scope {
        case everyPage
        case listed
        case thisMachine
    }

    private let scope: Scope
    private let origins: [AllowedOrigin]

    /// Admits every page and every name. This is safe if every caller has to present a credential: there are no cookies
    /// or other credentials that a browser would send by itself.
    public static let everyPage = PagePolicy(scope: .everyPage, origins: [])

    var isOpen: Bool { if case .everyPage = scope { true } else { false } }

    /// Admits only pages of these origins, and programs. Clients may call the gateway by any name.
    public static func only(_ origins: [AllowedOrigin]) -> PagePolicy { PagePolicy(scope: .listed, origins: origins) }

    /// Admits only pages that this machine serves, pages of these origins, and programs. Clients may call the gateway
    /// only by this machine's names and the hosts of these origins, so that a foreign page can't use DNS to appear
    /// local.
    public static func thisMachine(and origins: [AllowedOrigin] = []) -> PagePolicy {
        PagePolicy(scope: .thisMachine, origins: origins)
    }

    /// The parts of a request that identify the page that sent it, if a page did.
    struct Signs: Sendable {
        /// The names under which the request calls the gateway: the request target's and the `Host` header's. Empty in
        /// HTTP/1.0.
        var hosts: [String] = []
        /// Every `Origin` header.
        var origins: [String] = []
        /// The `Sec-Fetch-Site` header.
        var site: String?
        var referer: String?
    }

    enum Verdict: Equatable {
        /// Every caller is admitted.
        case all
        /// The page of this origin is admitted and may read the answer. Nil: the caller is a program, or sent no
        /// `Origin`.
        case admitted(origin: String?)
        case refused(PageRefusal)
    }

    func judge(_ signs: Signs) -> Verdict {
        guard scope != .everyPage else { return .all }
        var names: [Authority] = []
        for text in signs.hosts {
            let name = Authority(text[...])
            if case .thisMachine = scope, !mayBeCalled(name?.host) { return .refused(.name(text)) }
            if let name { names.append(name) }
        }
        for text in signs.origins {
            guard let page = WebOrigin(text), admits(page, names) else { return .refused(.page(text)) }
        }
        // Browsers send one `Origin`. With several, no page may read the answer.
        if let first = signs.origins.first { return .admitted(origin: signs.origins.count == 1 ? first : nil) }
        return judgeWithoutOrigin(signs, names)
    }

    /// Judges a request without `Origin`. Browsers send scripts, images, frames and links so; long polling and JSONP
    /// are scripts.
    private func judgeWithoutOrigin(_ signs: Signs, _ names: [Authority]) -> Verdict {
        // The address was typed in, or the page is the gateway's own. Foreign names for this machine were refused
        // above.
        if signs.site == "same-origin" || signs.site == "none" { return .admitted(origin: nil) }
        // A page can suppress the `Referer` header, but can't forge it.
        if let referer = signs.referer, let page = WebOrigin(url: referer) {
            return admits(page, names) ? .admitted(origin: nil) : .refused(.page(Self.origin(of: referer)))
        }
        // All recent browsers send `Sec-Fetch-Site`, so the caller is a program.
        guard let site = signs.site else { return .admitted(origin: nil) }
        // The only host of the same site as this machine is this machine.
        if case .thisMachine = scope, site == "same-site", names.allSatisfy(\.host.isLoopback) {
            return .admitted(origin: nil)
        }
        return admits(.opaque, names) ? .admitted(origin: nil) : .refused(.unnamedPage)
    }

    private func mayBeCalled(_ host: HostName?) -> Bool {
        guard let host else { return false }
        return host.isLoopback || host == Self.androidEmulatorsHost || origins.contains { $0.names(host) }
    }

    private func admits(_ page: WebOrigin, _ names: [Authority]) -> Bool {
        if case .site(let scheme, let authority) = page {
            if case .thisMachine = scope, authority.host.isLoopback { return true }
            // Several SDKs send the gateway's own address as their origin.
            if names.contains(where: { $0.normalized(for: scheme) == authority }) { return true }
        }
        return origins.contains { $0.admits(page) }
    }

    /// The host machine's name inside Android's emulator. DNS cannot redirect it, because it is an address.
    private static let androidEmulatorsHost = HostName("10.0.2.2")

    /// Returns the part of a URL before its path, unchanged.
    private static func origin(of url: String) -> String {
        guard let (scheme, rest) = WebOrigin.split(url) else { return url }
        return "\(scheme)://\(rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" })"
    }
}

/// The reason for refusing a request: the page that sent it, or the name under which it calls the gateway.
enum PageRefusal: Hashable, Sendable {
    /// The request calls the gateway by a name that any page's owner could have chosen.
    case name(String)
    /// The request comes from a foreign page.
    case page(String)
    /// The request comes from a foreign page that hides its origin.
    case unnamedPage

    /// Returns the text for the caller and the log: the reason, and how to allow the request.
    func text(isSecure: Bool) -> String {
        switch self {
        case .name(let name):
            let fix = (Self.quoted(name).hasPrefix("\"") ? Authority(name[...]) : nil).map { _ in
                ", or start it with --allow-origin \(isSecure ? "https" : "http")://\(name)"
            }
            return "\(Self.quoted(name)) is not a name of this machine, and pathmirror dev accepts no other names: "
                + "use localhost\(Self.short(fix ?? ""))"
        case .page("null"), .unnamedPage:
            return
                "A page without an origin may not use this gateway: serve the page from an allowed address, "
                + "or start the gateway with --allow-origin null, which allows every page that hides its origin"
        case .page(let origin):
            let isOrigin = WebOrigin(origin) != nil && Self.quoted(origin).hasPrefix("\"")
            return "Pages of \(Self.quoted(origin)) may not use this gateway"
                + (isOrigin ? ": to allow them, start it with --allow-origin \(Self.short(origin))" : "")
        }
    }

    /// Quotes a name or origin only if it has the form of a name or origin. The text goes to the log, and a badly split
    /// request could have a credential here.
    private static func quoted(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
            case UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: ":"), UInt8(ascii: "/"),
                UInt8(ascii: "["), UInt8(ascii: "]"):
                true
            default: false
            }
        }
        let hasShortLabels = text.split(whereSeparator: { $0 == "." || $0 == "/" || $0 == ":" }).allSatisfy {
            $0.utf8.count <= 63
        }
        guard isPlain, hasShortLabels else { return "an invalid name of \(text.utf8.count) bytes" }
        return "\"\(short(text))\""
    }

    /// Limits the length of a text that a caller chose.
    private static func short(_ text: String) -> String { text.count <= 300 ? text : text.prefix(300) + "…" }
}
