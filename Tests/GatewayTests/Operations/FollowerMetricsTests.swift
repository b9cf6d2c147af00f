import Testing

@testable import Gateway

/// Tests of the metrics of followers.
@Suite struct FollowerMetricsTests {
    private static func facts(
        _ namespace: String, state: String = "following", hasProblem: Bool = false, lag: Int64? = 1_500,
        ratio: Double? = 0.25
    ) -> FollowerFacts {
        FollowerFacts(
            namespace: namespace, state: state, hasProblem: hasProblem, lagMilliseconds: lag, receivedBytes: 9_000,
            entries: 90, resyncs: 2,
            dailyLimitRatio: ratio)
    }

    private static func lines(_ followers: [FollowerFacts]) -> [Substring] {
        var sources = MetricSources()
        sources.followers = followers
        return Metric.page(sources).split(separator: "\n").filter { $0.contains("pathmirror_follower") }
    }

    @Test func ofOneFollower() {
        let lines = Set(Self.lines([Self.facts("shop")]).filter { !$0.hasPrefix("#") })
        let expected = [
            ("up", "1"), ("lag_seconds", "1.5"), ("received_bytes_total", "9000"), ("daily_limit_ratio", "0.25"),
            ("entries_total", "90"), ("resyncs_total", "2"),
        ].map { Substring("pathmirror_follower_\($0.0){namespace=\"shop\"} \($0.1)") }
        #expect(lines == Set(expected + [#"pathmirror_followers{state="following"} 1"#]))
    }

    @Test func followersAreCountedByState() {
        let lines = Self.lines([
            Self.facts("a", state: "waiting"), Self.facts("b", state: "over budget"), Self.facts("c"),
            Self.facts("d", state: "waiting"),
        ])
        #expect(
            lines.filter { $0.hasPrefix("pathmirror_followers{") } == [
                #"pathmirror_followers{state="following"} 1"#, #"pathmirror_followers{state="over budget"} 1"#,
                #"pathmirror_followers{state="waiting"} 2"#,
            ])
        #expect(lines.contains(#"pathmirror_follower_up{namespace="a"} 0"#))
        let withProblem = Self.lines([Self.facts("e", hasProblem: true)])
        #expect(withProblem.contains(#"pathmirror_follower_up{namespace="e"} 0"#))
        #expect(lines.contains(#"pathmirror_follower_up{namespace="c"} 1"#))
    }

    /// Checks that a follower without a limit or a message has no series for it.
    @Test func unknownNumbersAreLeftOut() {
        let lines = Self.lines([Self.facts("a", lag: nil, ratio: nil), Self.facts("b", lag: nil)])
        #expect(!lines.contains { $0.contains("lag_seconds") })
        #expect(lines.contains(#"pathmirror_follower_daily_limit_ratio{namespace="b"} 0.25"#))
        #expect(!lines.contains { $0.hasPrefix(#"pathmirror_follower_daily_limit_ratio{namespace="a""#) })
    }

    @Test func withoutFollowersThereIsNothing() { #expect(Self.lines([]).isEmpty) }

    /// Checks that the number of followers in the metrics is bounded, and that all are counted by state.
    @Test func seriesAreBounded() {
        let lines = Self.lines((0..<1_500).map { Self.facts("f\(10_000 + $0)") })
        #expect(lines.count { $0.hasPrefix("pathmirror_follower_up{") } == 1_000)
        #expect(lines.contains(#"pathmirror_followers{state="following"} 1500"#))
    }
}
