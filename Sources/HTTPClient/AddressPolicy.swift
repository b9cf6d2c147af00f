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
