import Glibc

/// Blocking Unix sockets, by descriptor.
enum UnixSocket {
    static func listen(_ path: String) throws -> Int32 {
        let descriptor = try make()
        let result = try withAddress(path) { bind(descriptor, $0, $1) }
        guard result == 0, Glibc.listen(descriptor, 64) == 0 else { throw ProxyFailure(step: "listen", code: errno) }
        return descriptor
    }

    static func connect(_ path: String) throws -> Int32 {
        let descriptor = try make()
        guard try withAddress(path, { Glibc.connect(descriptor, $0, $1) }) == 0 else {
            close(descriptor)
            throw ProxyFailure(step: "connect", code: errno)
        }
        return descriptor
    }

    /// Receives the next bytes, or nil at the end.
    static func receive(from descriptor: Int32) -> [UInt8]? {
        let capacity = 128 * 1024
        let bytes = [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
            count = max(0, recv(descriptor, buffer.baseAddress, capacity, 0))
        }
        return bytes.isEmpty ? nil : bytes
    }

    /// Sends all bytes. Returns false if the peer has closed the connection.
    static func send(_ bytes: ArraySlice<UInt8>, to descriptor: Int32) -> Bool {
        var rest = bytes
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    private static func make() throws -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw ProxyFailure(step: "socket", code: errno) }
        return descriptor
    }

    private static func withAddress(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) throws -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let isLongEnough = withUnsafeMutableBytes(of: &address.sun_path) { target -> Bool in
            guard path.utf8.count < target.count else { return false }
            target.copyBytes(from: path.utf8)
            return true
        }
        guard isLongEnough else { throw ProxyFailure(step: "the socket's path is too long", code: ENAMETOOLONG) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}
