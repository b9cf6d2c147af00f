import LogStore
import Runtime

/// Judges namespaces that follow an upstream by the recorded state of their followers. Pure.
enum FollowDiagnosis {
    /// The time after which a pause is reported. The upstream's changes of that time become one entry.
    static let longPauseSeconds: Int64 = 86_400
    /// The time without a message after which a lost connection is a problem: the alert's time.
    static let longSilenceSeconds: Int64 = 300

    /// Returns no finding if no namespace follows an upstream.
    static func findings(_ followers: [WorkFacts.Follower]) -> [Finding] {
        let found = followers.flatMap { [state($0), budget($0)].compactMap { $0 } }
        guard found.isEmpty, !followers.isEmpty else { return found }
        return [.ok("followers.state", "namespaces that follow an upstream: \(followers.count), without problems")]
    }

    private static func state(_ follower: WorkFacts.Follower) -> Finding? {
        let name = follower.namespace
        let what = "namespace \(name) does not follow its upstream"
        let fix = "pathmirror follow status \(name) (docs/runbook.md#pathmirrorfollowerdoesnotfollow)"
        switch follower.state {
        case "following":
            // The follower works, and its message is about the rules.
            return follower.message.map { .warning("followers.rules", "namespace \(name): \($0)", fix: fix) }
        case "paused":
            guard follower.stateSeconds > longPauseSeconds else { return nil }
            return .warning(
                "followers.paused",
                "namespace \(name) has been paused for \(DatabaseDiagnosis.duration(follower.stateSeconds)): it lacks the upstream's changes since then",
                fix: "pathmirror follow resume \(name)")
        case "not running":
            return .problem(
                "followers.state", "\(what): no gateway runs its follower", fix: "start a gateway; then \(fix)")
        case "starting", "connecting", "authenticating", "waiting", "synchronizing":
            // States of a connection that is lost or begins.
            guard follower.silentSeconds > longSilenceSeconds || follower.message != nil else { return nil }
            let text = described(follower, what)
            return follower.silentSeconds > longSilenceSeconds
                ? .problem("followers.state", text, fix: fix) : .warning("followers.state", text, fix: fix)
        default: return .problem("followers.state", described(follower, what), fix: fix)
        }
    }

    private static func described(_ follower: WorkFacts.Follower, _ what: String) -> String {
        "\(what) (\(follower.state))" + (follower.message.map { ": \($0)" } ?? "")
    }

    private static func budget(_ follower: WorkFacts.Follower) -> Finding? {
        guard let most = follower.maxBytesPerDay, Double(follower.receivedToday) > 0.9 * Double(most),
            follower.state != "over budget"
        else { return nil }
        return .warning(
            "followers.budget",
            "namespace \(follower.namespace) has received \(ByteCount.text(follower.receivedToday)) today, and its limit is \(ByteCount.text(most)): at the limit it stops until the next day (UTC)",
            fix: "raise the limit, or let less change in the upstream (docs/runbook.md#pathmirrorfolloweroverbudget)")
    }
}
