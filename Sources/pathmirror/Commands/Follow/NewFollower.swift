import Follower
import LogStore
import Rules
import Runtime

/// A namespace that is about to follow an upstream: the checks before it, and the change of the database. Of `follow add`
/// and `dev --follow`.
struct NewFollower {
    let namespace: String
    let upstream: UpstreamAddress
    let credentials: UpstreamCredentials
    /// Whether the namespace keeps rules of its own instead of the upstream's.
    let keepsRules: Bool
    var maxBytesPerDay: Int64?

    /// Checks that the upstream can be read, that its rules can be evaluated if they are adopted, and that it is smaller than
    /// the daily limit. Prints warnings about its rules.
    func check(_ console: Console) throws {
        try FollowOptions.withTools { tools in
            var check = UpstreamCheck(upstream, credentials, tools)
            do {
                _ = try check.access()
            } catch FollowError.refused(let status, let request, let reason) where credentials == .none {
                throw CommandFailure(
                    "The upstream refused to answer \(request) (status \(status): \(reason)). No --credentials were given."
                )
            }
            if !keepsRules { try checkRules(&check, console) }
            if let maxBytesPerDay {
                let estimate = try check.estimate()
                guard estimate <= maxBytesPerDay else {
                    throw CommandFailure(
                        "The upstream has about \(ByteCount.text(estimate)), more than --max-bytes-per-day. Nothing was changed."
                    )
                }
            }
        }
    }

    /// Makes the namespace follow.
    ///
    /// - Parameter replaces: whether the upstream's data may replace data of the namespace.
    func add(_ connection: LogConnection, replaces: Bool) throws(LogStoreError) -> FollowAddition {
        try connection.addFollow(
            namespace: namespace, upstream: upstream.description, credentials: credentials.stored,
            keepRules: keepsRules, maxBytesPerDay: maxBytesPerDay, replaces: replaces)
    }

    private func checkRules(_ check: inout UpstreamCheck, _ console: Console) throws {
        let source: [UInt8]
        do {
            source = try check.rules()
        } catch FollowError.refused(let status, _, let reason) {
            throw CommandFailure(
                "The upstream's rules can't be read with these credentials (status \(status): \(reason)). Add --keep-rules to keep "
                    + "rules of your own, or grant the account roles/firebasedatabase.viewer.")
        }
        do throws(RulesError) {
            for warning in try RuleSet(json: source, keepsWarnings: true).warnings {
                console.error("pathmirror: warning: rules \(warning)")
            }
        } catch {
            throw CommandFailure(
                "The upstream's rules have parts that can't be evaluated here:\n\(error)\nAdd --keep-rules to keep rules of your own."
            )
        }
    }
}
