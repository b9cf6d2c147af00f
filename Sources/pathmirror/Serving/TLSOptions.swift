import Glibc
import HTTPServer
import Runtime

/// The options about serving over TLS.
struct TLSOptions {
    static let options: [OptionSpecification] = [
        .init(
            "tls-certificate", "FILE",
            "serves HTTPS by this certificate (PEM, with its chain); plain HTTP then only where it is asked for; read again when it changes"
        ),
        .init("tls-key", "FILE", "the certificate's private key (PEM, without a password)"),
        .init("tls-listen", "HOST:PORT", "where to serve HTTPS; default 127.0.0.1:9443"),
        .init(
            "hsts-max-age-s", "N",
            "for how many seconds browsers are told, over HTTPS, to use nothing but HTTPS for this host, 0 not to tell them; default for serve 31536000, for dev 0"
        ),
    ]

    let identity: TLSIdentity
    let address: ListenAddress
    /// What `--hsts-max-age-s` says.
    let strictTransportSeconds: Int?
    /// Looks at the key's file.
    let file: SecretFile
    let warnings: [SecretFile.Warning]

    /// Nil where none of the options is given.
    init?(_ arguments: ParsedArguments) throws {
        let (certificate, key) = (arguments["tls-certificate"], arguments["tls-key"])
        guard certificate != nil || key != nil || arguments["tls-listen"] != nil else { return nil }
        guard let certificate, let key else {
            throw UsageError("TLS needs both --tls-certificate and --tls-key.")
        }
        address = try ListenOption.address(arguments["tls-listen"] ?? "127.0.0.1:9443", "tls-listen")
        strictTransportSeconds = try arguments.integer("hsts-max-age-s", in: 0...3_153_600_000)
        file = SecretFile(arguments)
        warnings = try file.check(key).map { [$0] } ?? []
        do throws(TLSError) {
            identity = try TLSIdentity(certificateFile: certificate, keyFile: key)
        } catch {
            throw CommandFailure("\(error).")
        }
    }
}

/// `HOST:PORT` as a place to listen.
enum ListenOption {
    static func address(_ text: String, _ option: String) throws -> ListenAddress {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]),
            colon > text.startIndex
        else { throw UsageError("--\(option) must be HOST:PORT, such as 0.0.0.0:9000 or [::]:9000.") }
        return ListenAddress(host: String(text[..<colon]), port: port)
    }
}

/// Loads the certificate again when its files change, when told to, and once in a while, so that the keys of session
/// tickets don't get old. Open connections go on. Files that can't be used change nothing.
final class CertificateWatch: Sendable {
    private static let lookMilliseconds: Int64 = 2_000
    private static let ticketKeyMilliseconds: Int64 = 12 * 3_600_000

    private struct State {
        var isStopping = false
        var isWanted = false
    }
    private let state: Condition<State>
    private let thread: Thread

    init(_ tls: TLSOptions, _ logger: Logger) {
        let (identity, file) = (tls.identity, tls.file)
        let state = Condition(State())
        self.state = state
        let first = Self.stamp(identity)
        Self.warn(identity, logger)
        thread = Thread(name: "certificate") {
            var stamp = first
            var loaded = Clock.monotonicMilliseconds
            while true {
                let wake = state.wait(milliseconds: Self.lookMilliseconds) { state -> State? in
                    guard state.isStopping || state.isWanted else { return nil }
                    defer { state.isWanted = false }
                    return state
                }
                if wake?.isStopping == true { return }
                let new = Self.stamp(identity)
                let isOld = Clock.monotonicMilliseconds - loaded > Self.ticketKeyMilliseconds
                guard new != stamp || wake != nil || isOld else { continue }
                stamp = new
                loaded = Clock.monotonicMilliseconds
                do {
                    // Where nothing has changed it was said before.
                    if let warning = try file.check(identity.keyFile), !isOld || wake != nil { warning.log(logger) }
                    try identity.reload()
                    logger.notice("certificate loaded", [("file", identity.certificateFile)])
                    Self.warn(identity, logger)
                } catch {
                    logger.error("the certificate can't be loaded; the one before stays", [("error", "\(error)")])
                }
            }
        }
    }

    func reload() { state.signal { $0.isWanted = true } }

    func stop() {
        state.signal { $0.isStopping = true }
        thread.join()
    }

    private static func warn(_ identity: TLSIdentity, _ logger: Logger) {
        let days = (identity.expiresAt - Clock.unixMilliseconds / 1_000) / 86_400
        guard days < 14 else { return }
        logger.warning(
            "the certificate expires soon, or has", [("file", identity.certificateFile), ("days", "\(days)")])
    }

    /// What changes when a file does.
    private static func stamp(_ identity: TLSIdentity) -> [String] {
        [identity.certificateFile, identity.keyFile].map { path in
            var status = stat()
            guard stat(path, &status) == 0 else { return "none" }
            let (modified, changed) = (status.st_mtim, status.st_ctim)
            return
                "\(status.st_ino) \(status.st_size) \(modified.tv_sec).\(modified.tv_nsec) \(changed.tv_sec).\(changed.tv_nsec)"
        }
    }
}
