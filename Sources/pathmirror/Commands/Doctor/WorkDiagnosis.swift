import LogStore

/// Judges gateways, namespaces, mirrors, feeds and followers by their recorded state. Pure.
enum WorkDiagnosis {
    /// The lag from which a reader of the log is reported.
    static let longLagSeconds: Int64 = 300

    static func findings(_ facts: WorkFacts, hasRulesFile: Bool) -> [Finding] {
        namespaces(facts, hasRulesFile: hasRulesFile) + gateways(facts) + mirrors(facts) + feeds(facts)
            + FollowDiagnosis.findings(facts.followers)
    }

    private static func namespaces(_ facts: WorkFacts, hasRulesFile: Bool) -> [Finding] {
        var found: [Finding] = [.ok("namespaces.count", "namespaces: \(facts.namespaces)")]
        if !facts.withoutRules.isEmpty, !hasRulesFile {
            found.append(
                .note(
                    "namespaces.rules",
                    "no rules are set for \(DatabaseDiagnosis.list(facts.withoutRules)): only administrators have access, unless gateways are started with --rules",
                    fix: "pathmirror rules set --ns NAME FILE"))
        }
        for (name, seconds) in facts.aheadOfClock.sorted(by: { $0.key < $1.key }) {
            found.append(
                .problem(
                    "clock.log",
                    "the newest entry of \(name) is \(DatabaseDiagnosis.duration(seconds)) ahead of the server's clock: the clock was set back",
                    fix: "correct the server's clock; until it passes that time, all entries get the same time"))
        }
        return found
    }

    private static func gateways(_ facts: WorkFacts) -> [Finding] {
        var found: [Finding] = []
        found.append(
            facts.liveGateways > 0
                ? .ok("gateways.live", "gateways with realtime sessions: \(facts.liveGateways)")
                : .note("gateways.live", "no gateway has realtime sessions with onDisconnect operations now"))
        if facts.silentGateways > 0 {
            let silent = "silent gateways with open sessions: \(facts.silentGateways)"
            found.append(
                facts.liveGateways > 0
                    ? .note("gateways.silent", "\(silent); the other gateways end these sessions after --dead-after")
                    : .warning(
                        "gateways.silent", "\(silent): the onDisconnect operations of their clients have not run",
                        fix: "start a gateway, which runs them"))
        }
        return found
    }

    /// - Parameter this: this program, in the form in which `GatewayFacts` names programs.
    static func programs(_ facts: GatewayFacts, this: String) -> [Finding] {
        let each = facts.programs.sorted { $0.key > $1.key }
            .map { "\($0.value) of \($0.key.isEmpty ? "a version without a program name" : $0.key)" }
        let text = "connected gateways: \(each.joined(separator: "; "))"
        switch facts.programs.count {
        case 0: return []
        case 1 where facts.programs[this] != nil: return [.ok("gateways.versions", text)]
        case 1:
            return [
                .warning(
                    "gateways.versions", "\(text); this program is \(this)",
                    fix:
                        "replace them, or use their program: a gateway refuses to start with a schema of another version"
                )
            ]
        default:
            return [
                .warning(
                    "gateways.versions", text,
                    fix:
                        "replace the older ones soon (docs/guides/upgrade.md#updates): one that ends doesn't start again"
                )
            ]
        }
    }

    private static func mirrors(_ facts: WorkFacts) -> [Finding] {
        var found: [Finding] = []
        for mirror in facts.mirrors {
            let name = "mirror \(mirror.name) of \(mirror.namespace)"
            let status = "pathmirror mirror status --ns \(mirror.namespace)"
            if ["broken", "not running"].contains(mirror.state) {
                found.append(
                    .problem(
                        "mirrors.state", "\(name) is \(mirror.state)",
                        fix: "\(status) (docs/runbook.md#pathmirrormirrornotrunning)"))
            } else if mirror.state == "paused" {
                found.append(
                    .note(
                        "mirrors.paused",
                        "\(name) is paused, and lags by \(DatabaseDiagnosis.duration(mirror.lagSeconds)): the log keeps the entries that it needs",
                        fix: "pathmirror mirror resume \(mirror.name) --ns \(mirror.namespace)"))
            } else if mirror.lagSeconds > longLagSeconds {
                found.append(
                    .warning(
                        "mirrors.lag", "\(name) is \(DatabaseDiagnosis.duration(mirror.lagSeconds)) behind",
                        fix: "\(status) (docs/runbook.md#pathmirrormirrorlagging)"))
            }
            if mirror.failures > 0 {
                found.append(
                    .warning(
                        "mirrors.errors",
                        "\(name) has \(Counted.text(mirror.failures, "conversion error"))",
                        fix: "pathmirror mirror errors \(mirror.name) --ns \(mirror.namespace)"))
            }
        }
        if found.isEmpty { found.append(.ok("mirrors.state", "mirrors: \(facts.mirrors.count), without problems")) }
        return found
    }

    /// A gateway waits 2 s for a locked table. Shorter transactions delay a mirror only once.
    static let longLockSeconds: Int64 = 2

    static func mirrorLocks(_ facts: MirrorLockFacts) -> [Finding] {
        facts.locks.map { lock in
            let user = lock.user.isEmpty ? "another user" : lock.user
            let application = lock.application.isEmpty ? "" : "\(lock.application), "
            let time = lock.seconds.map { " for \(DatabaseDiagnosis.duration($0))" } ?? ""
            return .warning(
                "mirrors.locks",
                "a transaction of \(user) (\(application)process \(lock.pid)) has locked the table of mirror \(lock.mirror) of \(lock.namespace)\(time) (\(lock.mode)): the mirror cannot write it",
                fix: "end it: select pg_terminate_backend(\(lock.pid))")
        }
    }

    private static func feeds(_ facts: WorkFacts) -> [Finding] {
        var found: [Finding] = []
        for feed in facts.feeds {
            let name = "feed \(feed.name) of \(feed.namespace)"
            let status = "pathmirror feed status --ns \(feed.namespace)"
            if ["broken", "not running"].contains(feed.state) {
                found.append(
                    .problem(
                        "feeds.state", "\(name) is \(feed.state)",
                        fix: "\(status) (docs/runbook.md#pathmirrorfeednotrunning)"))
            } else if feed.lagSeconds > longLagSeconds {
                found.append(
                    .warning(
                        "feeds.lag", "\(name) is \(DatabaseDiagnosis.duration(feed.lagSeconds)) behind",
                        fix: "\(status) (docs/runbook.md#pathmirrorfeedlagging)"))
            }
            if feed.failures > 0 {
                found.append(
                    .warning(
                        "feeds.dead", "\(name) has \(feed.failures) dead letters",
                        fix: "pathmirror feed dead ls \(feed.name) --ns \(feed.namespace)"))
            }
            if feed.holdsBackSeconds > 0 {
                found.append(
                    .warning(
                        "feeds.retention",
                        "\(name) has delayed pruning of the log for \(DatabaseDiagnosis.duration(feed.holdsBackSeconds)) beyond its retention",
                        fix: "restart its consumers, or run pathmirror feed seek or feed rm"))
            }
        }
        if found.isEmpty { found.append(.ok("feeds.state", "feeds: \(facts.feeds.count), without problems")) }
        return found
    }
}
