import CEvent
import Glibc

/// A place to listen at: a numeric IPv4 or IPv6 address and a port.
public struct ListenAddress: Sendable, Hashable, CustomStringConvertible {
    /// `127.0.0.1`, `0.0.0.0`, `::1`, `::` (brackets are accepted and removed), or `localhost` (127.0.0.1).
    public var host: String
    /// 0 means: any free port. `HTTPServer.boundAddresses` tells which one it became.
    public var port: UInt16

    public init(host: String, port: UInt16) {
        if host.hasPrefix("["), host.hasSuffix("]") {
            self.host = String(host.dropFirst().dropLast())
        } else {
            self.host = host
        }
        self.port = port
    }

    /// As it stands in a URL: `127.0.0.1:9000`, `[::1]:9000`.
    public var description: String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}

extension ListenAddress {
    /// The addresses of this machine that clients may find for `localhost`: 127.0.0.1, and ::1 where the machine has it.
    ///
    /// Port 0 gives 127.0.0.1 alone, as the two would get different ports.
    public static func localhost(port: UInt16) -> [ListenAddress] {
        let four = ListenAddress(host: "127.0.0.1", port: port)
        let six = ListenAddress(host: "::1", port: port)
        return port != 0 && ListenAddress(host: "::1", port: 0).canBeBound() ? [four, six] : [four]
    }

    /// Whether the machine has this address. Binds a socket to it for a moment.
    private func canBeBound() -> Bool {
        guard let (made, length) = makeSocketAddress() else { return false }
        var storage = made
        let descriptor = pathmirror_tcp_socket(Int32(storage.ss_family))
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return pathmirror_bind(descriptor, &storage, length) == 0
    }

    /// Fills `storage` with the socket address; nil where the host is no numeric address.
    func makeSocketAddress() -> (storage: sockaddr_storage, length: socklen_t)? {
        var storage = sockaddr_storage()
        let text = host == "localhost" ? "127.0.0.1" : host
        let length = withUnsafeMutableBytes(of: &storage) { raw -> socklen_t? in
            var four = sockaddr_in()
            if inet_pton(AF_INET, text, &four.sin_addr) == 1 {
                four.sin_family = sa_family_t(AF_INET)
                four.sin_port = port.bigEndian
                raw.storeBytes(of: four, as: sockaddr_in.self)
                return socklen_t(MemoryLayout<sockaddr_in>.size)
            }
            var six = sockaddr_in6()
            if inet_pton(AF_INET6, text, &six.sin6_addr) == 1 {
                six.sin6_family = sa_family_t(AF_INET6)
                six.sin6_port = port.bigEndian
                raw.storeBytes(of: six, as: sockaddr_in6.self)
                return socklen_t(MemoryLayout<sockaddr_in6>.size)
            }
            return nil
        }
        return length.map { (storage, $0) }
    }
}
