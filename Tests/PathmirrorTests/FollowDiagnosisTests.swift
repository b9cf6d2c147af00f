import LogStore
import TestSupport
import Testing

@testable import pathmirror

/// Checks that `doctor` finds followers that do not follow.
@Suite struct FollowDiagnosisTests {
    private static func follower(
        _ state: String, message: String? = nil, stateSeconds: Int64 = 10, silentSeconds: Int64 = 10,
        receivedToday: Int64 = 0, maxBytesPerDay: Int64? = nil
    ) -> WorkFacts.Follower {
        WorkFacts.Follower(
            namespace: "shop", state: state, message: message, stateSeconds: stateSeconds,
            silentSeconds: silentSeconds, receivedToday: receivedToday, maxBytesPerDay: maxBytesPerDay)
    }

    private static func judge(_ followers: WorkFacts.Follower...) -> [String] {
        FollowDiagnosis.findings(followers).map { "\($0.check) \($0.level)" }
    }

    @Test func followersWithoutProblems() {
        #expect(FollowDiagnosis.findings([]).isEmpty)
        #expect(
            Self.judge(Self.follower("following", silentSeconds: 90_000), Self.follower("synchronizing"))
                == ["followers.state ok"])
    }

    @Test func problemsAndWarnings() {
        #expect(Self.judge(Self.follower("not running")) == ["followers.state problem"])
        #expect(Self.judge(Self.follower("denied", message: "No right.")) == ["followers.state problem"])
        #expect(Self.judge(Self.follower("over budget", message: "No more.")) == ["followers.state problem"])
        // A connection is lost for a moment, or for long.
        #expect(Self.judge(Self.follower("waiting", message: "Lost.")) == ["followers.state warning"])
        #expect(
            Self.judge(Self.follower("waiting", message: "Lost.", silentSeconds: 301)) == ["followers.state problem"])
        #expect(Self.judge(Self.follower("connecting", silentSeconds: 301)) == ["followers.state problem"])
        // It follows, without the upstream's rules.
        #expect(Self.judge(Self.follower("following", message: "The rules.")) == ["followers.rules warning"])
    }

    @Test func pausesAndLimits() {
        #expect(Self.judge(Self.follower("paused", stateSeconds: 3_600)) == ["followers.state ok"])
        #expect(Self.judge(Self.follower("paused", stateSeconds: 90_000)) == ["followers.paused warning"])
        #expect(
            Self.judge(Self.follower("following", receivedToday: 90, maxBytesPerDay: 100)) == ["followers.state ok"])
        #expect(
            Self.judge(Self.follower("following", receivedToday: 91, maxBytesPerDay: 100))
                == ["followers.budget warning"])
        // The state says so already.
        #expect(
            Self.judge(Self.follower("over budget", message: "No more.", receivedToday: 100, maxBytesPerDay: 100))
                == ["followers.state problem"])
    }

    /// Checks that each finding names the namespace, and its fix commands that exist and the runbook.
    @Test func fixesNameCommands() throws {
        for follower in [
            Self.follower("not running"), Self.follower("denied"), Self.follower("paused", stateSeconds: 90_000),
        ] {
            let finding = try #require(FollowDiagnosis.findings([follower]).first)
            #expect(finding.what.contains("namespace shop "))
            let fix = try #require(finding.fix)
            let command = try #require(fix.firstRange(of: "pathmirror follow ")).lowerBound
            let words = fix[command...].split(separator: " ").dropFirst().prefix(3).map(String.init)
            #expect(
                Commands.all.contains { words.starts(with: $0.specification.words) } && words.last == "shop", "\(fix)")
        }
    }

    @Test func theDatabaseIsAsked() throws {
        try withHistory { database throws in
            func levels() throws -> [String: String] {
                let run = try database.run(["doctor", "--json"])
                var found: [String: String] = [:]
                for finding in try run.json() {
                    guard let check = finding["check"]?.string, check.hasPrefix("followers.") else { continue }
                    found[check] = finding["level"]?.string
                }
                return found
            }
            #expect(try levels().isEmpty)
            try database.execute(
                """
                insert into pathmirror.follow (namespace_id, upstream, credentials, max_bytes_per_day)
                select id, 'http://upstream', '{"kind":"none"}', 1000 from pathmirror.namespace where name = 'default'
                """)
            #expect(try levels() == ["followers.state": "problem"])
            try database.execute(
                """
                update pathmirror.follow set fence = gen_random_uuid(), reported_at = now(), state = 'following',
                    received_on = (now() at time zone 'utc')::date, received_today = 950
                """)
            #expect(try levels() == ["followers.budget": "warning"])
            try database.execute("update pathmirror.follow set received_on = '2020-01-01'")
            #expect(try levels() == ["followers.state": "ok"])
            try database.execute(
                "update pathmirror.follow set is_paused = true, state = 'paused', state_since = now() - interval '3 days'"
            )
            #expect(try levels() == ["followers.paused": "warning"])
        }
    }
}
