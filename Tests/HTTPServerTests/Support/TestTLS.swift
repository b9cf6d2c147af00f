import COpenSSL
import Glibc

/// A client's side of one TLS connection, blocking. It accepts any certificate, as the server is tested.
final class TestTLS {
    private let context: OpaquePointer
    private let ssl: OpaquePointer

    /// `version`: the only supported version (`TLS1_2_VERSION`, …). `protocols`: the protocols offered by ALPN.
    /// `other`: the connection whose session is resumed.
    init(version: Int32? = nil, protocols: [String] = [], resuming other: TestTLS? = nil) throws {
        // The library writes to the socket by itself.
        signal(SIGPIPE, SIG_IGN)
        guard let context = SSL_CTX_new(TLS_client_method()), let ssl = SSL_new(context) else {
            throw ClientFailure(description: "no TLS")
        }
        self.context = context
        self.ssl = ssl
        if let version {
            SSL_ctrl(ssl, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(version), nil)
            SSL_ctrl(ssl, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(version), nil)
            // Otherwise the client itself refuses old versions.
            SSL_set_security_level(ssl, 0)
        }
        let list = protocols.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
        if !list.isEmpty { SSL_set_alpn_protos(ssl, list, UInt32(list.count)) }
        if let session = other.flatMap({ SSL_get1_session($0.ssl) }) {
            SSL_set_session(ssl, session)
            SSL_SESSION_free(session)
        }
    }

    deinit {
        SSL_free(ssl)
        SSL_CTX_free(context)
    }

    func connect(_ descriptor: Int32) throws {
        SSL_set_fd(ssl, descriptor)
        ERR_clear_error()
        guard SSL_connect(ssl) == 1 else {
            let reason = ERR_reason_error_string(ERR_peek_error()).map { String(cString: $0) } ?? "errno \(errno)"
            throw ClientFailure(description: "handshake: \(reason)")
        }
    }

    /// Sends bytes, with the result of a socket's `send`.
    func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        ERR_clear_error()
        return Int(SSL_write(ssl, bytes.baseAddress, Int32(clamping: bytes.count)))
    }

    /// Receives bytes, with the result of a socket's `recv`: 0 only after the peer's close_notify.
    func receive(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
        ERR_clear_error()
        let count = SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count))
        if count > 0 { return Int(count) }
        return SSL_get_error(ssl, count) == SSL_ERROR_ZERO_RETURN ? 0 : -1
    }

    /// Sends close_notify; the other direction stays open.
    func finishSending() { SSL_shutdown(ssl) }

    var isResumed: Bool { SSL_session_reused(ssl) == 1 }

    var version: Int32 { SSL_version(ssl) }

    /// The protocol that the server chose, or nil.
    var chosenProtocol: String? {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &length)
        return name.map { String(decoding: UnsafeBufferPointer(start: $0, count: Int(length)), as: UTF8.self) }
    }

    /// The serial number of the server's certificate.
    var serial: Int? {
        guard let certificate = SSL_get1_peer_certificate(ssl) else { return nil }
        defer { X509_free(certificate) }
        return ASN1_INTEGER_get(X509_get0_serialNumber(certificate))
    }
}
