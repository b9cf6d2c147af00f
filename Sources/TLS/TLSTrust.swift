internal import COpenSSL

/// The certificate authorities that clients trust, as loaded once. Any thread.
//
// @unchecked Sendable: the pointer never changes, and its context is not configured any more once `init` has returned.
// The library promises that several threads may create connections of one context.
public final class TLSTrust: @unchecked Sendable {
    public enum Authorities: Sendable, Equatable {
        /// The system's authorities.
        case system
        /// The authorities in a file of PEM certificates, and no others.
        case file(String)
    }

    private let context: OpaquePointer

    /// Reads the authorities.
    public init(_ authorities: Authorities = .system) throws(TLSError) {
        ERR_clear_error()
        guard let context = pathmirror_tls_client_context() else { throw .library(reason: TLSError.takeReason()) }
        let isLoaded =
            switch authorities {
            case .system: SSL_CTX_set_default_verify_paths(context) == 1
            case .file(let path): SSL_CTX_load_verify_file(context, path) == 1
            }
        guard isLoaded else {
            SSL_CTX_free(context)
            throw .authorities(reason: TLSError.takeReason())
        }
        self.context = context
    }

    deinit {
        SSL_CTX_free(context)
    }

    /// Returns the client's side of a new connection, which fails unless the server proves to be `host`: a name, or an
    /// IP address without brackets. Returns nil if memory is exhausted, or the host's name can't be checked.
    package func makeSession(descriptor: Int32, host: String) -> TLSSession? {
        ERR_clear_error()
        guard !host.isEmpty, !host.utf8.contains(0), let ssl = SSL_new(context) else { return nil }
        guard SSL_set_fd(ssl, descriptor) == 1, pathmirror_tls_expect_host(ssl, host) == 1 else {
            SSL_free(ssl)
            ERR_clear_error()
            return nil
        }
        SSL_set_connect_state(ssl)
        return TLSSession(ssl)
    }
}
