internal import CCurl
public import Runtime

/// The addresses to which a request may connect.
public enum AddressPolicy: Sendable, Equatable {
    case any
    /// Public addresses over TLS, and the exceptions. The policy checks the address of each actual connection, after name
    /// resolution and redirects. The request therefore uses no proxy, even if the environment configures one.
    case publicOnly(except: Exceptions = Exceptions())

    /// Non-public addresses that may be reached, and hosts that may be reached without TLS if a request allows plain HTTP.
    public struct Exceptions: Sendable, Equatable {
        public var networks: [IPNetwork]
        /// Host names or addresses as in URLs, in lower case and without a port. They may resolve to any address.
        public var hosts: Set<String>

        public init(networks: [IPNetwork] = [], hosts: Set<String> = []) {
            self.networks = networks
            self.hosts = Set(hosts.map { ClientURL.normalized($0) })
        }

        /// The loopback addresses of this machine.
        public static let thisMachine = Exceptions(
            networks: ["127.0.0.0/8", "::1"].compactMap { IPNetwork($0) }, hosts: ["localhost"])

        /// Parses the text of an operator: networks, addresses and hosts separated by commas, such as
        /// `10.20.0.0/16,billing.internal`.
        ///
        /// - Throws: `UnknownPart` for a part that is none of these.
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

        /// Returns whether a server is excepted, for libraries that connect without consulting an `AddressPolicy`. Matches the
        /// host's text, or an address in one of the networks. Resolves no names.
        public func admits(host: String) -> Bool {
            let host = ClientURL.normalized(host)
            if hosts.contains(host) { return true }
            guard let address = IPAddress(host) else { return false }
            return networks.contains { $0.contains(address) }
        }

        /// A part that is neither a network, an address nor a host name.
        public struct UnknownPart: Error, Equatable, Sendable {
            public let text: String
        }

        /// Returns whether the text is a host name. Numeric forms of addresses are rejected, because they would look like
        /// exceptions without being any.
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
        /// A public address: all requests may connect.
        case outside
        /// The operator has excepted the address.
        case excepted
        case refused
        /// The address would be allowed over TLS.
        case needsTLS
    }

    /// - Parameters:
    ///   - address: The address, or nil if its kind is unknown.
    ///   - comesFromOutside: Whether a server on the internet has redirected the request. Exceptions do not apply to such redirects.
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

/// Decides to which addresses a transfer may connect, taking its redirects so far into account. Belongs to the client's
/// thread, like the transfer.
final class AddressGuard {
    private let policy: AddressPolicy
    /// The current URL of the transfer.
    private var url: ClientURL?
    /// Whether a server on the internet has received the request and redirected it.
    private var comesFromOutside = false
    private var lastVerdict = AddressPolicy.Verdict.excepted
    /// Whether an address has been allowed.
    private var isConnecting = false
    private var refusal: HTTPClientError?

    init(_ policy: AddressPolicy) { self.policy = policy }

    /// Prepares for a request to `url`.
    func begin(_ url: ClientURL?) {
        if lastVerdict == .outside { comesFromOutside = true }
        self.url = url
        isConnecting = false
        refusal = nil
    }

    /// Returns the reason why the guard stopped the request, or nil if the request ended for another reason.
    func refusal(for code: CURLcode) -> HTTPClientError? {
        code == CURLE_ABORTED_BY_CALLBACK || !isConnecting ? refusal : nil
    }

    /// Returns whether the transfer may connect to an address in its current state.
    func mayReach(_ address: IPAddress?) -> Bool {
        lastVerdict = policy.verdict(on: address, of: url, comesFromOutside: comesFromOutside)
        switch lastVerdict {
        case .outside, .excepted: return true
        case .refused: refusal = .addressNotAllowed(host: url.map { String($0.host.prefix(253)) } ?? "The server")
        case .needsTLS: refusal = .insecure("plain HTTP is allowed only for addresses that are listed by name")
        }
        return false
    }

    /// Returns whether the transfer may open a socket to an address.
    func mayConnect(_ address: IPAddress?) -> Bool {
        guard mayReach(address) else { return false }
        isConnecting = true
        return true
    }
}

/// The parts of a URL that determine the server, parsed as libcurl parses them when it connects.
public struct ClientURL: Sendable, Equatable {
    /// The scheme in lower case.
    public let scheme: String
    /// The host in lower case, without a trailing dot. An IPv6 address has no brackets.
    public let host: String
    public let port: String
    /// Whether the URL contains a user name or a password.
    public let hasCredentials: Bool

    /// Returns nil if the text is not a URL with a host.
    public init?(_ text: String) {
        guard !text.utf8.contains(0), let handle = curl_url() else { return nil }
        defer { curl_url_cleanup(handle) }
        // These flags are the ones that libcurl uses when it connects.
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

    /// Returns whether both URLs have the same scheme, host and port.
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
