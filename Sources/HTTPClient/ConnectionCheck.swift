internal import CCurl
internal import Glibc
internal import Runtime
internal import TLS

/// Checks the connection that libcurl has chosen for a transfer. Belongs to the client's thread, like the transfer.
///
/// A server can send bytes without a request. libcurl 7.88 would read them as the response to the next request on the connection. A
/// connection that has carried a request is therefore reused only if it is silent, and a response on it counts only if the server
/// can have received the request before it began the response. The check also decides to which addresses a transfer may connect:
/// before a socket is opened, so that a refused address does not even receive a handshake, and before a request is sent.
final class ConnectionCheck {
    private let addresses: AddressGuard
    private let pool: ConnectionPool
    private let easy: UnsafeMutableRawPointer
    private var opened: [Int32] = []
    private var socket: Int32 = -1
    /// The number of bytes of the request's body that libcurl has written to the connection.
    private var bodyBytesSent = 0
    /// Whether the connection has carried a request before.
    private(set) var isReused = false
    /// Whether the connection was rejected because it is closed, or has received bytes without a request.
    private(set) var isDirty = false
    /// Whether libcurl has begun to resolve the server's name, and has not yet asked for a socket.
    private(set) var isResolving = false

    init(_ addresses: AddressGuard, _ pool: ConnectionPool, _ easy: UnsafeMutableRawPointer) {
        self.addresses = addresses
        self.pool = pool
        self.easy = easy
    }

    /// Installs the callbacks. libcurl holds a pointer to the check until the transfer is freed.
    func watch() -> Bool {
        let context = Unmanaged.passUnretained(self).toOpaque()
        return pathmirror_curl_set_socket_opener(easy, Self.open, context) == CURLE_OK
            && pathmirror_curl_set_resolver_watcher(easy, Self.resolve, context) == CURLE_OK
            && pathmirror_curl_set_sending_check(easy, Self.check, context) == CURLE_OK
            && pathmirror_curl_set_notes(easy, Self.note, context) == CURLE_OK
    }

    /// Prepares for the next request.
    func begin() {
        opened = []
        socket = -1
        isReused = false
        isDirty = false
        isResolving = false
    }

    /// Returns whether the server can have received the whole request before it sent the start of its response.
    ///
    /// TCP acknowledges the request at the latest with the segment that begins the response. If a part of the request is
    /// unacknowledged, the server sent the bytes before it had the request.
    ///
    /// - Parameter bodyBytes: The length of the request's body.
    func answersRequest(bodyBytes: Int) -> Bool {
        guard isReused, socket >= 0 else { return true }
        return bodyBytesSent >= bodyBytes && pathmirror_socket_unacknowledged(socket) == 0
    }

    private func mayUse(_ pair: ConnectionPool.Ends) -> Bool {
        bodyBytesSent = 0
        if let known = pool.socket(between: pair) {
            isReused = true
            socket = known
            isDirty = !Self.isQuiet(known) || hasBufferedBytes
            return !isDirty
        }
        isReused = false
        isDirty = false
        socket = opened.first { pathmirror_socket_port($0) == pair.localPort } ?? -1
        opened = []
        if socket >= 0 { pool.use(socket, between: pair) }
        return true
    }

    /// Returns whether a connection is open and has received no bytes. Under TLS, records of the TLS protocol itself count, too:
    /// the connection is then not reused, which costs a handshake.
    private static func isQuiet(_ socket: Int32) -> Bool {
        var byte: UInt8 = 0
        while true {
            let count = recv(socket, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT))
            if count < 0, errno == EINTR { continue }
            return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)
        }
    }

    private var hasBufferedBytes: Bool {
        guard let tls = pathmirror_curl_tls(easy) else { return false }
        return TLSSession.hasBufferedBytes(ofForeign: tls)
    }

    // MARK: Callbacks of libcurl

    private static let resolve: curl_resolver_start_callback = { _, _, context in
        if let context { Unmanaged<ConnectionCheck>.fromOpaque(context).takeUnretainedValue().isResolving = true }
        return 0
    }

    private static let open: curl_opensocket_callback = { context, _, address in
        guard let context, let address else { return CURL_SOCKET_BAD }
        let check = Unmanaged<ConnectionCheck>.fromOpaque(context).takeUnretainedValue()
        check.isResolving = false
        let wanted = address.pointee
        let bytes = UnsafeRawBufferPointer(start: pathmirror_curl_address(address), count: Int(wanted.addrlen))
        guard check.addresses.mayConnect(IPAddress(socketAddress: bytes)) else { return CURL_SOCKET_BAD }
        let opened = check.pool.open(wanted.family, wanted.socktype, wanted.protocol)
        guard opened >= 0 else { return CURL_SOCKET_BAD }
        check.opened.append(opened)
        return opened
    }

    private static let check: curl_prereq_callback = { context, remote, local, remotePort, localPort in
        guard let context, let remote, let local else { return CURL_PREREQFUNC_ABORT }
        let check = Unmanaged<ConnectionCheck>.fromOpaque(context).takeUnretainedValue()
        let pair = ConnectionPool.Ends(
            local: String(cString: local), localPort: localPort, remote: String(cString: remote), remotePort: remotePort
        )
        return check.addresses.mayReach(IPAddress(pair.remote)) && check.mayUse(pair)
            ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
    }

    /// libcurl 7.88 keeps a connection that has received more bytes after a chunked response or one without a body. It discards
    /// these bytes, but further ones could follow, so this callback forbids reuse.
    private static let note: curl_debug_callback = { easy, kind, text, count, context in
        if kind == CURLINFO_DATA_OUT, let context {
            Unmanaged<ConnectionCheck>.fromOpaque(context).takeUnretainedValue().bodyBytesSent += count
        }
        guard let easy, kind == CURLINFO_TEXT, let text else { return 0 }
        let line = UnsafeRawBufferPointer(start: text, count: count)
        if line.starts(with: ConnectionCheck.excess) || line.starts(with: ConnectionCheck.leftovers) {
            _ = pathmirror_curl_set_long(easy, CURLOPT_FORBID_REUSE, 1)
        }
        return 0
    }

    private static let excess = Array("Excess found".utf8)
    private static let leftovers = Array("Leftovers after chunking".utf8)
}
