internal import COpenSSL
internal import Glibc

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
