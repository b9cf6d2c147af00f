import Glibc
import HTTPServer
import Runtime
import TLS

/// Loads the certificate again when its files change, when told to, and once in a while, so that the keys of session
/// tickets don't get old. Open connections go on. Files that can't be used change nothing.
final class CertificateWatch: Sendable {
    private static let lookMilliseconds: Milliseconds = 2_000
    private static let ticketKeyMilliseconds: Milliseconds = 12 * 3_600_000

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
