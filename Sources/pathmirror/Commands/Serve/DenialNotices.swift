import LogStore
import Postgres
import Runtime
import Synchronization

/// Namespaces whose rules deny requests, for the log of `dev`: each at most once a minute, however many requests there are. Any thread.
///
/// Without these lines a developer sees only `Permission denied`.
final class DenialNotices: Sendable {
    private struct State {
        /// The time from which a namespace may be noted again.
        var next: [String: Milliseconds] = [:]
        /// Namespaces that were noted and not taken.
        var noted: [String] = []
    }

    private let state = Mutex(State())
    private static let pauseMilliseconds: Milliseconds = 60_000
    /// The maximum number of namespaces in a minute: requests can name any number.
    private static let mostNamespaces = 100

    /// Notes that a request was denied.
    func note(_ namespace: String, now: Milliseconds = Clock.monotonicMilliseconds) {
        state.withLock { state in
            if let next = state.next[namespace], now < next { return }
            if state.next.count >= Self.mostNamespaces { state.next = state.next.filter { now < $0.value } }
            guard state.next.count < Self.mostNamespaces else { return }
            state.next[namespace] = now + Self.pauseMilliseconds
            state.noted.append(namespace)
        }
    }

    /// Removes the namespaces that were noted since the last call.
    func take() -> [String] {
        state.withLock { state in
            defer { state.noted = [] }
            return state.noted
        }
    }
}

extension DenialNotices {
    /// Logs the noted namespaces that have rules of their own, with the commands that show and remove the rules. Blocks its thread.
    ///
    /// - Parameter arguments: those of `dev`, whose `--data` the commands in the log repeat.
    func log(_ url: PostgresURL, _ arguments: ParsedArguments, _ logger: Logger) {
        let namespaces = take()
        // If the database is unavailable, the log has the reason already.
        guard !namespaces.isEmpty, let connection = try? LogConnection(url.withApplicationName("pathmirror dev")) else {
            return
        }
        defer { connection.close() }
        for name in namespaces {
            guard let record = try? connection.namespace(named: name),
                let rules = try? connection.currentRules(record.id)
            else { continue }
            logger.notice(
                "the rules of a namespace deny requests: sign in, send 'Authorization: Bearer owner', or remove the rules",
                [
                    ("namespace", name), ("rules", "seq \(rules.seq)"),
                    ("show", arguments.completing("pathmirror rules get --ns \(name)")),
                    ("remove", arguments.completing("pathmirror rules clear --ns \(name)")),
                ])
        }
    }
}
