import Glibc

/// A port of 127.0.0.1 for a test's server that stops and restarts.
///
/// A socket without a listener is bound to the port. The kernel does not assign such a port to outgoing connections or
/// to sockets that ask for any free port, but a server may listen there explicitly (with `SO_REUSEADDR`, as servers
/// do).
final class HeldPort: Sendable {
    struct Failure: Error {}

    let number: UInt16
    private let holder: Int32

    init() throws {
        let holder = Self.socket()
        var yes: Int32 = 1
        setsockopt(holder, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout.size(ofValue: yes)))
        let number = Self.withAddress(port: 0) { address, length -> UInt16? in
            guard bind(holder, address, length) == 0 else { return nil }
            var length = length
            guard getsockname(holder, address, &length) == 0 else { return nil }
            return address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                UInt16(bigEndian: $0.pointee.sin_port)
            }
        }
        guard let number else {
            close(holder)
            throw Failure()
        }
        self.number = number
        self.holder = holder
    }

    deinit { close(holder) }

    /// Whether a server is listening now.
    var isListenedTo: Bool {
        let caller = Self.socket()
        defer { close(caller) }
        return Self.withAddress(port: number) { connect(caller, $0, $1) == 0 }
    }

    private static func socket() -> Int32 {
        Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    }

    private static func withAddress<Result>(
        port: UInt16, _ body: (UnsafeMutablePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr)
        return withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
