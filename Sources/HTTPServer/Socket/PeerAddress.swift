import CEvent
import Glibc
import Runtime

/// Where a connection comes from, as it was when the connection was accepted (no String until asked for).
struct PeerAddress: Sendable, Hashable {
    let ip: IPAddress
    let port: UInt16

    init(_ storage: borrowing sockaddr_storage) {
        // A socket of another family, such as a Unix socket, has no address.
        ip = withUnsafeBytes(of: storage) { IPAddress(socketAddress: $0) } ?? IPAddress(high: 0, low: 0)
        switch Int32(storage.ss_family) {
        case AF_INET:
            port = UInt16(bigEndian: withUnsafeBytes(of: storage) { $0.loadUnaligned(as: sockaddr_in.self).sin_port })
        case AF_INET6:
            port = UInt16(bigEndian: withUnsafeBytes(of: storage) { $0.loadUnaligned(as: sockaddr_in6.self).sin6_port })
        default: port = 0
        }
    }

    /// 127.0.0.0/8, ::1 and their mapped forms.
    var isLoopback: Bool { ip.isLoopback }

    /// The address without its port, in its usual text form.
    var host: String { ip.description }
}
