import CEvent
import Glibc

/// A listening socket of one loop. Owns its descriptor.
struct ListeningSocket {
    let descriptor: Int32
    /// The address with the real port.
    let address: ListenAddress
    /// Whether connections use TLS.
    let isSecure: Bool

    /// Opens, binds and listens.
    ///
    /// - Parameter sharing: whether other sockets of this user may listen at the port before and after this one
    ///   (SO_REUSEPORT): the kernel then distributes connections over all of them.
    init(_ wanted: ListenAddress, isSecure: Bool, sharing: Bool, backlog: Int32) throws(HTTPServerError) {
        guard let (made, length) = wanted.makeSocketAddress() else {
            throw .invalidSettings(["\"\(wanted.host)\" is not a numeric IPv4 or IPv6 address"])
        }
        var storage = made
        let descriptor = pathmirror_tcp_socket(Int32(storage.ss_family))
        guard descriptor >= 0 else {
            throw .cannotListen(address: wanted.description, step: "socket", errorNumber: errno)
        }
        func give(up step: String) -> HTTPServerError {
            let number = errno
            close(descriptor)
            return .cannotListen(address: wanted.description, step: step, errorNumber: number)
        }
        func set(_ level: Int32, _ option: Int32) -> Bool {
            var one: Int32 = 1
            return setsockopt(descriptor, level, option, &one, socklen_t(MemoryLayout<Int32>.size)) == 0
        }
        guard set(SOL_SOCKET, SO_REUSEADDR) else { throw give(up: "SO_REUSEADDR") }
        if sharing {
            guard set(SOL_SOCKET, SO_REUSEPORT) else { throw give(up: "SO_REUSEPORT") }
        }
        // Accepted sockets inherit the option on Linux, which saves one system call for each of them.
        guard set(Int32(IPPROTO_TCP), TCP_NODELAY) else { throw give(up: "TCP_NODELAY") }
        if Int32(storage.ss_family) == AF_INET6, wanted.host != "::" {
            guard set(Int32(IPPROTO_IPV6), IPV6_V6ONLY) else { throw give(up: "IPV6_V6ONLY") }
        }
        guard pathmirror_bind(descriptor, &storage, length) == 0 else { throw give(up: "bind") }
        guard listen(descriptor, backlog) == 0 else { throw give(up: "listen") }
        self.descriptor = descriptor
        self.isSecure = isSecure
        self.address = ListenAddress(host: wanted.host, port: Self.port(of: descriptor))
    }

    func closeDescriptor() {
        close(descriptor)
    }

    /// Lets sockets that are opened from now on listen at the same port.
    ///
    /// The kernel has refused this socket if another one listened at the port, regardless of that socket's options. If
    /// two sockets are opened at the same moment, at least one is refused.
    private func share() throws(HTTPServerError) {
        var one: Int32 = 1
        let size = socklen_t(MemoryLayout<Int32>.size)
        guard setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &one, size) == 0 else {
            throw .cannotListen(address: address.description, step: "SO_REUSEPORT", errorNumber: errno)
        }
    }

    private static func port(of descriptor: Int32) -> UInt16 {
        var storage = sockaddr_storage()
        return pathmirror_local_address(descriptor, &storage) == 0 ? PeerAddress(storage).port : 0
    }
}

extension ListeningSocket {
    /// Opens the listening sockets of every loop: `result[loop][address]`. Closes all of them if it throws.
    static func open(_ settings: HTTPServerSettings) throws(HTTPServerError) -> [[ListeningSocket]] {
        var opened = [[ListeningSocket]](repeating: [], count: settings.loops)
        do throws(HTTPServerError) {
            for (address, isSecure) in settings.addresses.map({ ($0, false) })
                + settings.tlsAddresses.map({ ($0, true) })
            {
                // The first socket takes the port alone: with SO_REUSEPORT it would silently share the port with
                // another server of this user. Only then may the sockets of the other loops join.
                let first = try ListeningSocket(
                    address, isSecure: isSecure, sharing: settings.sharesPorts, backlog: settings.backlog)
                opened[0].append(first)
                if settings.loops > 1, !settings.sharesPorts { try first.share() }
                for loop in 1..<max(1, settings.loops) {
                    opened[loop].append(
                        try ListeningSocket(
                            first.address, isSecure: isSecure, sharing: true, backlog: settings.backlog))
                }
            }
        } catch {
            for sockets in opened { for socket in sockets { socket.closeDescriptor() } }
            throw error
        }
        return opened
    }
}

/// An address to listen at: a numeric IPv4 or IPv6 host and a port.
public struct ListenAddress: Sendable, Hashable, CustomStringConvertible {
    /// `127.0.0.1`, `0.0.0.0`, `::1`, `::` (brackets are accepted and removed), or `localhost` (127.0.0.1).
    public var host: String
    /// The port. 0 stands for any free port; `HTTPServer.boundAddresses` contains the chosen one.
    public var port: UInt16

    public init(host: String, port: UInt16) {
        if host.hasPrefix("["), host.hasSuffix("]") {
            self.host = String(host.dropFirst().dropLast())
        } else {
            self.host = host
        }
        self.port = port
    }

    /// The address as in a URL: `127.0.0.1:9000`, `[::1]:9000`.
    public var description: String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}

extension ListenAddress {
    /// Returns the addresses that clients on this machine may find for `localhost`: 127.0.0.1, and ::1 if the machine
    /// has it.
    ///
    /// Port 0 gives 127.0.0.1 alone, because the two addresses would get different ports.
    public static func localhost(port: UInt16) -> [ListenAddress] {
        let four = ListenAddress(host: "127.0.0.1", port: port)
        let six = ListenAddress(host: "::1", port: port)
        return port != 0 && ListenAddress(host: "::1", port: 0).canBeBound() ? [four, six] : [four]
    }

    /// Returns whether the machine has this address. Binds a socket to it for a moment.
    private func canBeBound() -> Bool {
        guard let (made, length) = makeSocketAddress() else { return false }
        var storage = made
        let descriptor = pathmirror_tcp_socket(Int32(storage.ss_family))
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return pathmirror_bind(descriptor, &storage, length) == 0
    }

    /// Returns the socket address; nil if the host is not a numeric address.
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

extension HTTPServerSettings {
    /// Checks that a server can listen at all addresses, by listening there for a moment.
    ///
    /// - Throws: the error of a server with these settings. A server that starts later may still find a port taken.
    public func checkAddresses() throws(HTTPServerError) {
        for sockets in try ListeningSocket.open(self) { for socket in sockets { socket.closeDescriptor() } }
    }
}
