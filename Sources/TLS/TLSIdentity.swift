internal import COpenSSL
internal import Glibc
import Synchronization

/// The certificate with which a server proves its identity, from two PEM files that may be replaced while it runs. Any
/// thread.
public final class TLSIdentity: Sendable {
    /// The file with the server's certificate, followed by its intermediate certificates.
    public let certificateFile: String
    /// The file with its private key, without a password.
    public let keyFile: String

    private let loaded: Mutex<TLSContext>

    /// Reads both files.
    public init(certificateFile: String, keyFile: String) throws(TLSError) {
        self.certificateFile = certificateFile
        self.keyFile = keyFile
        loaded = Mutex(try TLSContext(certificateFile: certificateFile, keyFile: keyFile))
    }

    /// Reads the files again. New connections use their content; open connections keep the old certificate. If the
    /// files can't be used, the old certificate stays. Also creates new keys for session tickets: a client that resumes
    /// an older session gets a full handshake.
    public func reload() throws(TLSError) {
        let new = try TLSContext(certificateFile: certificateFile, keyFile: keyFile)
        loaded.withLock { $0 = new }
    }

    /// The time at which the certificate in use expires, in seconds since 1970.
    public var expiresAt: Int64 { context.expiresAt }

    /// The SHA-256 of the public key (its SubjectPublicKeyInfo) of the certificate in use.
    public var publicKeyDigest: [UInt8] { context.publicKeyDigest }

    package var context: TLSContext { loaded.withLock { $0 } }
}

/// A certificate with its key, as loaded once, and the state that its connections share (the keys of session tickets).
//
// @unchecked Sendable: the pointer never changes, and its context is not configured any more once `init` has returned.
// The library promises that several threads may create connections of one context.
package final class TLSContext: @unchecked Sendable {
    private let context: OpaquePointer
    /// The time at which the certificate expires, in seconds since 1970.
    let expiresAt: Int64
    /// The SHA-256 of the certificate's public key with its algorithm (SubjectPublicKeyInfo); empty if memory is
    /// exhausted.
    let publicKeyDigest: [UInt8]

    init(certificateFile: String, keyFile: String) throws(TLSError) {
        ERR_clear_error()
        guard let context = pathmirror_tls_server_context() else { throw .library(reason: TLSError.takeReason()) }
        do throws(TLSError) {
            guard SSL_CTX_use_certificate_chain_file(context, certificateFile) == 1 else {
                throw .certificate(file: certificateFile, reason: TLSError.takeReason())
            }
            // Reading a key of another certificate fails as well; the reason distinguishes that case.
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

    /// Returns the server's side of a new connection; nil if memory is exhausted. The session keeps this context even
    /// if it is replaced.
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

/// The reason why a certificate and its key can't be used.
public enum TLSError: Error, Equatable, CustomStringConvertible {
    /// The file contains no certificates in PEM, or can't be read.
    case certificate(file: String, reason: String)
    /// The file contains no private key in PEM, can't be read, or needs a password.
    case key(file: String, reason: String)
    /// The certificate and the key are valid, but do not belong together.
    case mismatch(certificateFile: String, keyFile: String)
    /// The authorities for clients to trust can't be read.
    case authorities(reason: String)
    /// The library has no memory, or lacks a required feature.
    case library(reason: String)

    public var description: String {
        switch self {
        case .certificate(let file, let reason):
            "The certificate in \(file) can't be used: \(reason) (the file must be PEM: the server's certificate first, then the intermediate certificates)"
        case .key(let file, let reason):
            "The private key in \(file) can't be used: \(reason) (the file must be PEM, without a password)"
        case .mismatch(let certificateFile, let keyFile):
            "The private key in \(keyFile) does not belong to the certificate in \(certificateFile)"
        case .authorities(let reason):
            "The certificate authorities to trust can't be read: \(reason) (the file must be PEM, one certificate after the other)"
        case .library(let reason): "TLS can't be set up: \(reason)"
        }
    }

    /// Returns and clears the library's reason of the calling thread's last failure.
    static func takeReason() -> String {
        // The first error is the cause; later ones only describe the calls around it.
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
