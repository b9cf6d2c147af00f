internal import COpenSSL
internal import Glibc
import Synchronization

/// The certificate by which a server proves who it is, of two PEM files that may be replaced while it runs. Any thread.
public final class TLSIdentity: Sendable {
    /// The server's certificate, then those between it and an authority that clients know.
    public let certificateFile: String
    /// Its private key, without a password.
    public let keyFile: String

    private let loaded: Mutex<TLSContext>

    /// Reads both files.
    public init(certificateFile: String, keyFile: String) throws(TLSError) {
        self.certificateFile = certificateFile
        self.keyFile = keyFile
        loaded = Mutex(try TLSContext(certificateFile: certificateFile, keyFile: keyFile))
    }

    /// Reads the files again. Connections made from now on get what is in them; those that are open go on with what
    /// they began with. Where the files can't be used, what was loaded before stays. Also makes new keys for session
    /// tickets: who resumes an older session gets a full handshake.
    public func reload() throws(TLSError) {
        let new = try TLSContext(certificateFile: certificateFile, keyFile: keyFile)
        loaded.withLock { $0 = new }
    }

    /// Seconds since 1970 at which the certificate in use expires.
    public var expiresAt: Int64 { context.expiresAt }

    /// The SHA-256 of the public key (its SubjectPublicKeyInfo) of the certificate in use.
    public var publicKeyDigest: [UInt8] { context.publicKeyDigest }

    package var context: TLSContext { loaded.withLock { $0 } }
}

/// A certificate with its key, as loaded once, and what connections by it have in common (the keys of session tickets).
//
// @unchecked Sendable: the pointer never changes, and behind it nothing is configured any more once `init` has returned;
// making connections of one context on several threads is what the library promises.
package final class TLSContext: @unchecked Sendable {
    private let context: OpaquePointer
    /// Seconds since 1970 at which the certificate expires.
    let expiresAt: Int64
    /// The SHA-256 of the certificate's public key with its algorithm (SubjectPublicKeyInfo); no bytes where there is no memory.
    let publicKeyDigest: [UInt8]

    init(certificateFile: String, keyFile: String) throws(TLSError) {
        ERR_clear_error()
        guard let context = pathmirror_tls_server_context() else { throw .library(reason: TLSError.takeReason()) }
        do throws(TLSError) {
            guard SSL_CTX_use_certificate_chain_file(context, certificateFile) == 1 else {
                throw .certificate(file: certificateFile, reason: TLSError.takeReason())
            }
            // Reading a key that is another certificate's fails, too: told apart by the check.
            guard SSL_CTX_use_PrivateKey_file(context, keyFile, SSL_FILETYPE_PEM) == 1 else {
                let isMismatch = ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH
                let reason = TLSError.takeReason()
                throw isMismatch
                    ? .mismatch(certificateFile: certificateFile, keyFile: keyFile)
                    : .key(file: keyFile, reason: reason)
            }
            guard SSL_CTX_check_private_key(context) == 1 else {
                ERR_clear_error()
                throw .mismatch(certificateFile: certificateFile, keyFile: keyFile)
            }
        } catch {
            SSL_CTX_free(context)
            throw error
        }
        self.context = context
        publicKeyDigest = [UInt8](unsafeUninitializedCapacity: 32) { buffer, count in
            count = pathmirror_tls_public_key_digest(context, buffer.baseAddress) == 1 ? 32 : 0
        }
        expiresAt = Int64(time(nil)) + pathmirror_tls_seconds_left(context)
    }

    deinit {
        SSL_CTX_free(context)
    }

    /// The server's side of a new connection; nil where there is no memory. It goes on with this context whatever
    /// replaces it meanwhile.
    package func makeSession(descriptor: Int32) -> TLSSession? {
        guard let ssl = SSL_new(context) else { return nil }
        guard SSL_set_fd(ssl, descriptor) == 1 else {
            SSL_free(ssl)
            return nil
        }
        SSL_set_accept_state(ssl)
        return TLSSession(ssl)
    }
}

/// Why a certificate and its key can't be used.
public enum TLSError: Error, Equatable, CustomStringConvertible {
    /// The file holds no certificates in PEM, or can't be read.
    case certificate(file: String, reason: String)
    /// The file holds no private key in PEM, can't be read, or asks for a password.
    case key(file: String, reason: String)
    /// Each is good, but they don't belong together.
    case mismatch(certificateFile: String, keyFile: String)
    /// The authorities that a client is to trust can't be read.
    case authorities(reason: String)
    /// The library has no memory, or lacks what is needed.
    case library(reason: String)

    public var description: String {
        switch self {
        case .certificate(let file, let reason):
            "The certificate in \(file) can't be used: \(reason) (it must be PEM: the server's certificate first, then those between)"
        case .key(let file, let reason):
            "The private key in \(file) can't be used: \(reason) (it must be PEM, without a password)"
        case .mismatch(let certificateFile, let keyFile):
            "The private key in \(keyFile) is not that of the certificate in \(certificateFile)"
        case .authorities(let reason):
            "The certificate authorities to trust can't be read: \(reason) (they must be PEM, one certificate after the other)"
        case .library(let reason): "TLS can't be set up: \(reason)"
        }
    }

    /// What the library says of the calling thread's last failure; forgets it.
    static func takeReason() -> String {
        // The first is the cause: what comes behind it only says in which call that was.
        let code = ERR_get_error()
        ERR_clear_error()
        guard code != 0 else { return "unknown error" }
        if let text = ERR_reason_error_string(code) { return String(cString: text) }
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            guard let base = buffer.baseAddress else { return "unknown error" }
            ERR_error_string_n(code, base, 256)
            return String(cString: base)
        }
    }
}
