import Testing

@testable import Gateway

/// Tests of the metrics of feeds.
@Suite struct FeedMetricsTests {
    private static func facts(_ name: String, isUp: Bool = true) -> FeedFacts {
        FeedFacts(
            namespace: "n", name: name, isUp: isUp, lagMilliseconds: 61_500, heldMessages: 2, acknowledged: 90,
            redelivered: 3, deadLetters: 4, holdsBackMilliseconds: 9_000)
    }

    private static func lines(_ feeds: [FeedFacts]) -> [Substring] {
        var sources = MetricSources()
        sources.feeds = MetricSources.shown(feeds)
        return Metric.page(sources).split(separator: "\n").filter { $0.contains("pathmirror_feed_") }
    }

    @Test func ofOneFeed() {
        let lines = Set(Self.lines([Self.facts("orders")]).filter { !$0.hasPrefix("#") })
        let expected = [
            ("up", "1"), ("lag_seconds", "61.5"), ("held_messages", "2"), ("dead_letters", "4"),
            ("holds_back_seconds", "9.0"), ("acknowledged_total", "90"), ("redelivered_total", "3"),
        ].map { Substring("pathmirror_feed_\($0.0){feed=\"n/orders\"} \($0.1)") }
        #expect(lines == Set(expected))
    }

    @Test func counterAndGauge() {
        let lines = Self.lines([Self.facts("orders", isUp: false)])
        #expect(lines.contains("# TYPE pathmirror_feed_acknowledged_total counter"))
        #expect(lines.contains("# TYPE pathmirror_feed_dead_letters gauge"))
        #expect(lines.contains("pathmirror_feed_up{feed=\"n/orders\"} 0"))
    }

    @Test func withoutFeedsThereIsNothing() { #expect(Self.lines([]).isEmpty) }

    /// Checks that the number of feeds in the metrics is bounded.
    @Test func feedsAreBounded() {
        let lines = Self.lines((0..<1_500).reversed().map { Self.facts("f\(10_000 + $0)") })
            .filter { $0.hasPrefix("pathmirror_feed_up{") }
        #expect(lines.count == 1_000)
        #expect(lines.contains { $0.contains("n/f10999\"") } && !lines.contains { $0.contains("n/f11000\"") })
    }
}
