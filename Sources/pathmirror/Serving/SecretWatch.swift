import Runtime

/// Reads the files again when they change, or when told to. A file that can't be used changes nothing.
final class SecretWatch: Sendable {
    private struct State {
        var isStopping = false
        var isWanted = false
    }
    private let state: Condition<State>
    private let thread: Thread

    /// - Parameter replace: gets the new secrets, on the watch's thread.
    init(_ files: SecretFiles, _ logger: Logger, _ replace: @escaping @Sendable (SecretFiles.Secrets) -> Void) {
        let state = Condition(State())
        self.state = state
        let first = files.stamp
        thread = Thread(name: "secrets") {
            var stamp = first
            while true {
                let wake = state.wait(milliseconds: 1_000) { state -> State? in
                    guard state.isStopping || state.isWanted else { return nil }
                    defer { state.isWanted = false }
                    return state
                }
                if wake?.isStopping == true { return }
                let new = files.stamp
                guard new != stamp || wake != nil else { continue }
                stamp = new
                do {
                    let secrets = try files.load()
                    for warning in secrets.warnings { warning.log(logger) }
                    replace(secrets)
                    logger.notice("secrets read", [("files", files.all.joined(separator: ", "))])
                } catch {
                    logger.error("the secrets can't be read; those before stay", [("error", "\(error)")])
                }
            }
        }
    }

    func reload() { state.signal { $0.isWanted = true } }

    func stop() {
        state.signal { $0.isStopping = true }
        thread.join()
    }
}
