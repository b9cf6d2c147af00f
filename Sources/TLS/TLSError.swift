internal import COpenSSL

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
