import Glibc
import HTTPServer
import Runtime
import TLS

/// Reloads the certificate when its files change, on request, and periodically, which renews the keys of session tickets. Open connections
/// are not affected. Invalid files change nothing.
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
                    // A warning about an unchanged file was logged before.
                    if let warning = try file.check(identity.keyFile), !isOld || wake != nil { warning.log(logger) }
                    try identity.reload()
                    logger.notice("certificate loaded", [("file", identity.certificateFile)])
                    Self.warn(identity, logger)
                } catch {
                    logger.error(
                        "the new certificate can't be loaded; the previous one stays in use", [("error", "\(error)")])
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
            "the certificate expires soon, or has expired", [("file", identity.certificateFile), ("days", "\(days)")])
    }

    /// A text that changes with each file.
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
