internal import CCurl
internal import Glibc
internal import Runtime

/// Watches which addresses a transfer connects to. Belongs to the client's thread, as the transfer does.
///
/// libcurl asks twice: before it opens a socket, so that nothing is sent to an address that is refused, not even a handshake;
/// and before it sends a request, as the connection may be one that another request has opened.
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

    /// Sets the hooks. libcurl holds a pointer to the guard from then on.
    func watch(_ easy: UnsafeMutableRawPointer) -> Bool {
        guard policy != .any else { return true }
        let context = Unmanaged.passUnretained(self).toOpaque()
        // A proxy's address would say nothing of the server's.
        return pathmirror_curl_set_text(easy, CURLOPT_PROXY, "") == CURLE_OK
            && pathmirror_curl_set_socket_opener(easy, Self.open, context) == CURLE_OK
            && pathmirror_curl_set_sending_check(easy, Self.check, context) == CURLE_OK
    }

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

    /// A socket for an address, or none.
    private static let open: curl_opensocket_callback = { context, _, address in
        guard let context, let address else { return CURL_SOCKET_BAD }
        let guardian = Unmanaged<AddressGuard>.fromOpaque(context).takeUnretainedValue()
        let wanted = address.pointee
        let bytes = UnsafeRawBufferPointer(start: pathmirror_curl_address(address), count: Int(wanted.addrlen))
        guard guardian.mayReach(IPAddress(socketAddress: bytes)) else { return CURL_SOCKET_BAD }
        guardian.isConnecting = true
        return socket(wanted.family, wanted.socktype | Int32(SOCK_CLOEXEC.rawValue), wanted.protocol)
    }

    /// Whether a request may be sent over a connection that is open.
    private static let check: curl_prereq_callback = { context, address, _, _, _ in
        guard let context, let address else { return CURL_PREREQFUNC_ABORT }
        let guardian = Unmanaged<AddressGuard>.fromOpaque(context).takeUnretainedValue()
        return guardian.mayReach(IPAddress(String(cString: address))) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
    }
}
