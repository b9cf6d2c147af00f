/// Which web pages may use the gateway, and by which names it may be called.
///
/// A browser lets every page send requests to every address that it can reach, this machine's included: scripts and images
/// without asking, WebSockets without asking, and whatever else under a name that the page's owner has DNS lead to this
/// machine. Where credentials protect the data, that does no harm. Where being on this machine is enough to get in, as in
/// `dev`, the page has to be looked at.
public struct PagePolicy: Sendable {
    private enum Scope {
        case everyPage
        case listed
        case thisMachine
    }

    private let scope: Scope
    private let origins: [AllowedOrigin]

    /// Every page, by any name. Right where nobody gets in without showing a credential of their own: there are no cookies
    /// or the like that a browser would send by itself.
    public static let everyPage = PagePolicy(scope: .everyPage, origins: [])

    var isOpen: Bool { if case .everyPage = scope { true } else { false } }

    /// Only pages of these origins, and programs. The gateway may be called by any name.
    public static func only(_ origins: [AllowedOrigin]) -> PagePolicy { PagePolicy(scope: .listed, origins: origins) }

    /// Only pages that this machine serves, of these origins, and programs; and only by this machine's names and these
    /// origins' hosts, so that nobody's DNS makes a page of theirs look like one of ours.
    public static func thisMachine(and origins: [AllowedOrigin] = []) -> PagePolicy {
        PagePolicy(scope: .thisMachine, origins: origins)
    }

    /// What a request says of the page that it comes from, if it comes from one.
    struct Signs: Sendable {
        /// By which names it calls the gateway: the request target's and the `Host` header's. None in HTTP/1.0.
        var hosts: [String] = []
        /// Every `Origin` line.
        var origins: [String] = []
        /// `Sec-Fetch-Site`
        var site: String?
        var referer: String?
    }

    enum Verdict: Equatable {
        /// Whoever asks.
        case everybody
        /// This page, which may read the answer, or (nil) no page.
        case admitted(origin: String?)
        case refused(PageRefusal)
    }

    func judge(_ signs: Signs) -> Verdict {
        guard scope != .everyPage else { return .everybody }
        var names: [Authority] = []
        for text in signs.hosts {
            let name = Authority(text[...])
            if case .thisMachine = scope, !mayBeCalled(name?.host) { return .refused(.name(text)) }
            if let name { names.append(name) }
        }
        for text in signs.origins {
            guard let page = WebOrigin(text), admits(page, names) else { return .refused(.page(text)) }
        }
        // Several are no browser's: none is told that it may read the answer.
        if let first = signs.origins.first { return .admitted(origin: signs.origins.count == 1 ? first : nil) }
        return judgeWithoutOrigin(signs, names)
    }

    /// Scripts, images, frames and links come without `Origin`. Long polling and JSONP are scripts.
    private func judgeWithoutOrigin(_ signs: Signs, _ names: [Authority]) -> Verdict {
        // Typed in, or the gateway's own page. A name that somebody has led here has been refused above.
        if signs.site == "same-origin" || signs.site == "none" { return .admitted(origin: nil) }
        // A page can keep this from being sent, but can't make it up.
        if let referer = signs.referer, let page = WebOrigin(url: referer) {
            return admits(page, names) ? .admitted(origin: nil) : .refused(.page(Self.origin(of: referer)))
        }
        // No browser of the last years.
        guard let site = signs.site else { return .admitted(origin: nil) }
        // Of the same site as this machine is this machine alone.
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
            // Programs that send the gateway's own address for an origin, as several SDKs do.
            if names.contains(where: { $0.normalized(for: scheme) == authority }) { return true }
        }
        return origins.contains { $0.admits(page) }
    }

    /// What Android's emulator calls the machine that it runs on. Being an address, no DNS leads it anywhere.
    private static let androidEmulatorsHost = HostName("10.0.2.2")

    /// The part of a URL before its path, as it was written.
    private static func origin(of url: String) -> String {
        guard let (scheme, rest) = WebOrigin.split(url) else { return url }
        return "\(scheme)://\(rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" })"
    }
}

/// Why a request is refused for the page that it comes from, or the name that it calls.
enum PageRefusal: Hashable, Sendable {
    /// The gateway is called by a name that could be anybody's.
    case name(String)
    /// A page from elsewhere.
    case page(String)
    /// A page from elsewhere that doesn't say whence.
    case unnamedPage

    /// What the caller is told, and the log: what is wrong, and how to allow it.
    func text(isSecure: Bool) -> String {
        switch self {
        case .name(let name):
            let fix = (Self.quoted(name).hasPrefix("\"") ? Authority(name[...]) : nil).map { _ in
                ", or start it with --allow-origin \(isSecure ? "https" : "http")://\(name)"
            }
            return "\(Self.quoted(name)) is no name of this machine, and pathmirror dev answers to no other: "
                + "use localhost\(Self.short(fix ?? ""))"
        case .page("null"), .unnamedPage:
            return
                "A page that doesn't say where it comes from may not use this gateway: serve it from an address that may, "
                + "or start the gateway with --allow-origin null, which lets every page in that hides its origin"
        case .page(let origin):
            let isOrigin = WebOrigin(origin) != nil && Self.quoted(origin).hasPrefix("\"")
            return "Pages of \(Self.quoted(origin)) may not use this gateway"
                + (isOrigin ? ": to let them, start it with --allow-origin \(Self.short(origin))" : "")
        }
    }

    /// Only what a name or an origin may look like is repeated: a request that was cut wrongly may have somebody's
    /// credential here, and this goes to the log.
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
        guard isPlain, hasShortLabels else { return "a name of \(text.utf8.count) bytes that is none" }
        return "\"\(short(text))\""
    }

    /// It comes from anybody: not endlessly.
    private static func short(_ text: String) -> String { text.count <= 300 ? text : text.prefix(300) + "…" }
}
