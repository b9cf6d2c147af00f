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
