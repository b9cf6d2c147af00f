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
