internal import CCurl
public import Runtime

/// Which addresses a request may connect to.
public enum AddressPolicy: Sendable, Equatable {
    case any
    /// Public addresses over TLS, and the exceptions. The address is looked at that is really connected to, behind every name and
    /// redirect, so the request goes through no proxy, whatever the environment says.
    case publicOnly(except: Exceptions = Exceptions())

    /// What may be connected to though it is not public, and spoken to without TLS where a request allows that.
    public struct Exceptions: Sendable, Equatable {
        public var networks: [IPNetwork]
        /// Names or addresses as they stand in URLs, in lower case, without a port: whatever they lead to.
        public var hosts: Set<String>

        public init(networks: [IPNetwork] = [], hosts: Set<String> = []) {
            self.networks = networks
            self.hosts = Set(hosts.map { ClientURL.normalized($0) })
        }

        /// This machine's own addresses.
        public static let thisMachine = Exceptions(
            networks: ["127.0.0.0/8", "::1"].compactMap { IPNetwork($0) }, hosts: ["localhost"])

        /// Reads what operators write: networks, addresses and hosts, separated by commas: `10.20.0.0/16,billing.internal`.
        ///
        /// - Throws: the part that is neither.
        public init(_ text: String) throws(UnknownPart) {
            self.init()
            for part in text.split(separator: ",") {
                let part = String(part.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
                if part.isEmpty { continue }
                if let network = IPNetwork(part) {
                    networks.append(network)
                } else if Self.isHost(part) {
                    hosts.insert(ClientURL.normalized(part))
                } else {
                    throw UnknownPart(text: part)
                }
            }
        }

        /// Whether a server may be named that is connected to by something that asks no `AddressPolicy`: by its name as it stands here, or by an
        /// address in one of the networks. Nothing is resolved.
        public func admits(host: String) -> Bool {
            let host = ClientURL.normalized(host)
            if hosts.contains(host) { return true }
            guard let address = IPAddress(host) else { return false }
            return networks.contains { $0.contains(address) }
        }

        /// What is neither a network, an address nor a host's name.
        public struct UnknownPart: Error, Equatable, Sendable {
            public let text: String
        }

        /// A name, not a number: those of hosts in some form of an address would look like an exception, and be none.
        private static func isHost(_ text: String) -> Bool {
            guard text.utf8.count <= 253, let last = text.split(separator: ".").last else { return false }
            let isPlain = text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
                    true
                default: false
                }
            }
            return isPlain && last.first?.isLetter == true && ClientURL("https://\(text)/") != nil
        }
    }

    enum Verdict: Equatable {
        /// Anybody may connect there.
        case outside
        /// Somebody has said that this is right.
        case excepted
        case refused
        /// Over TLS it would be right.
        case needsTLS
    }

    /// - Parameters:
    ///   - address: nil where the address is of no known kind.
    ///   - comesFromOutside: a redirect of a server on the internet has led here; exceptions are not for it to use.
    func verdict(on address: IPAddress?, of url: ClientURL?, comesFromOutside: Bool) -> Verdict {
        guard case .publicOnly(let exceptions) = self else { return .excepted }
        guard let address, let url else { return .refused }
        if !comesFromOutside {
            if exceptions.hosts.contains(url.host) { return .excepted }
            if exceptions.networks.contains(where: { $0.contains(address) }) { return .excepted }
        }
        guard address.isPublic else { return .refused }
        return url.scheme == "https" ? .outside : .needsTLS
    }
}

/// Decides which addresses a transfer may connect to, by its redirects up to now. Belongs to the client's thread, as the transfer does.
final class AddressGuard {
    private let policy: AddressPolicy
    /// Where the transfer is going now.
    private var url: ClientURL?
    /// Some server on the internet has had the request, and has sent it on.
    private var comesFromOutside = false
    private var lastVerdict = AddressPolicy.Verdict.excepted
    /// Some address was let through.
    private var isConnecting = false
    private var refusal: HTTPClientError?

    init(_ policy: AddressPolicy) { self.policy = policy }

    /// A request to `url` is next.
    func begin(_ url: ClientURL?) {
        if lastVerdict == .outside { comesFromOutside = true }
        self.url = url
        isConnecting = false
        refusal = nil
    }

    /// Why libcurl was told not to go on, where that is what ended the request.
    func refusal(for code: CURLcode) -> HTTPClientError? {
        code == CURLE_ABORTED_BY_CALLBACK || !isConnecting ? refusal : nil
    }

    /// Whether the transfer may connect to an address, as far as it has come.
    func mayReach(_ address: IPAddress?) -> Bool {
        lastVerdict = policy.verdict(on: address, of: url, comesFromOutside: comesFromOutside)
        switch lastVerdict {
        case .outside, .excepted: return true
        case .refused: refusal = .addressNotAllowed(host: url.map { String($0.host.prefix(253)) } ?? "The server")
        case .needsTLS: refusal = .insecure("plain HTTP is only for addresses that are allowed by name")
        }
        return false
    }

    /// Whether the transfer may open a socket to an address.
    func mayConnect(_ address: IPAddress?) -> Bool {
        guard mayReach(address) else { return false }
        isConnecting = true
        return true
    }
}

/// The parts of an address that say where it leads, as libcurl reads them when it connects.
public struct ClientURL: Sendable, Equatable {
    /// In lower case.
    public let scheme: String
    /// In lower case, without a dot at its end; an IPv6 address without brackets.
    public let host: String
    public let port: String
    /// Has a user's name or password before the host.
    public let hasCredentials: Bool

    /// Nil where the text is no address with a host.
    public init?(_ text: String) {
        guard !text.utf8.contains(0), let handle = curl_url() else { return nil }
        defer { curl_url_cleanup(handle) }
        // As libcurl does when it is about to connect.
        let flags = UInt32(CURLU_NON_SUPPORT_SCHEME | CURLU_GUESS_SCHEME)
        guard curl_url_set(handle, CURLUPART_URL, text, flags) == CURLUE_OK,
            let scheme = Self.part(handle, CURLUPART_SCHEME), let host = Self.part(handle, CURLUPART_HOST),
            !host.isEmpty
        else { return nil }
        self.scheme = scheme.lowercased()
        self.host = Self.normalized(host)
        port = Self.part(handle, CURLUPART_PORT) ?? ""
        hasCredentials = Self.part(handle, CURLUPART_USER) != nil || Self.part(handle, CURLUPART_PASSWORD) != nil
    }

    /// Whether both lead to one server by one protocol.
    func hasOrigin(of other: ClientURL) -> Bool { scheme == other.scheme && host == other.host && port == other.port }

    static func normalized(_ host: String) -> String {
        var text = host.lowercased()
        if text.hasPrefix("["), text.hasSuffix("]") { text = String(text.dropFirst().dropLast()) }
        if text.hasSuffix(".") { text.removeLast() }
        return text
    }

    private static func part(_ handle: OpaquePointer, _ part: CURLUPart) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(handle, part, &text, UInt32(CURLU_DEFAULT_PORT)) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }
}
