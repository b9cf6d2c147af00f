import HTTPServer
import TLS

/// The options about TLS.
struct TLSOptions {
    static let options: [OptionSpecification] = [
        .init(
            "tls-certificate", "FILE",
            "serves HTTPS with this certificate (PEM, with its chain), and plain HTTP only with --listen; reloaded on change"
        ),
        .init("tls-key", "FILE", "the certificate's private key (PEM, without a password)"),
        .init("tls-listen", "HOST:PORT", "the address for HTTPS; default 127.0.0.1:9443"),
        .init(
            "hsts-max-age", "TIME",
            "how long browsers must use only HTTPS for this host (HSTS), 0s = no such header; default for serve 365d, for dev 0s"
        ),
    ]

    let identity: TLSIdentity
    let address: ListenAddress
    /// The value of `--hsts-max-age`.
    let strictTransportSeconds: Int?
    /// Checks the key's file.
    let file: SecretFile
    let warnings: [SecretFile.Warning]

    /// Returns nil if none of the options is given.
    init?(_ arguments: ParsedArguments) throws {
        let (certificate, key) = (arguments["tls-certificate"], arguments["tls-key"])
        strictTransportSeconds = try arguments.duration("hsts-max-age", in: 0...36_500 * 86_400_000)
            .map { Int(($0 + 999) / 1_000) }
        guard certificate != nil || key != nil || arguments["tls-listen"] != nil else { return nil }
        guard let certificate, let key else {
            throw UsageError("TLS needs both --tls-certificate and --tls-key.")
        }
        address = try ListenOption.address(arguments["tls-listen"] ?? "127.0.0.1:9443", "tls-listen")
        file = SecretFile(arguments)
        warnings = try file.check(key).map { [$0] } ?? []
        do throws(TLSError) {
            identity = try TLSIdentity(certificateFile: certificate, keyFile: key)
        } catch {
            throw CommandFailure("\(error).")
        }
    }
}

/// Parses `HOST:PORT` as a listen address.
enum ListenOption {
    static func address(_ text: String, _ option: String) throws -> ListenAddress {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]),
            colon > text.startIndex
        else { throw UsageError("--\(option) must be HOST:PORT, such as 0.0.0.0:9000 or [::]:9000.") }
        return ListenAddress(host: String(text[..<colon]), port: port)
    }

    /// Returns several addresses for `localhost`, which may be IPv4 and IPv6.
    static func addresses(_ text: String, _ option: String) throws -> [ListenAddress] {
        let address = try address(text, option)
        return address.host == "localhost" ? ListenAddress.localhost(port: address.port) : [address]
    }
}
