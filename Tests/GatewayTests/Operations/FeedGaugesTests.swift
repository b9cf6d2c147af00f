import Runtime
import Testing

@testable import Gateway

/// What the metrics tell of feeds.
@Suite struct FeedGaugesTests {
    private static func facts(_ name: String, isUp: Bool = true) -> FeedFacts {
        FeedFacts(
            namespace: "n", name: name, isUp: isUp, lagEntries: 7, lagMilliseconds: 61_999, pendingMessages: 5,
            heldMessages: 2, delivered: 100, acknowledged: 90, redelivered: 3, deadLetters: 4,
            oldestMilliseconds: 60_000, holdsBackMilliseconds: 9_000)
    }

    private static func text(_ feeds: [FeedFacts]) -> String {
        var metrics = MetricsText()
        FeedGauges(feeds).write(to: &metrics)
        return metrics.text
    }

    @Test func ofOneFeed() {
        let lines = Set(Self.text([Self.facts("orders")]).split(separator: "\n").filter { !$0.hasPrefix("#") })
        let expected = [
            ("up", 1), ("lag_entries", 7), ("lag_seconds", 61), ("pending_messages", 5), ("held_messages", 2),
            ("dead_letters", 4), ("oldest_unacknowledged_seconds", 60), ("holds_back_seconds", 9),
            ("delivered_total", 100), ("acknowledged_total", 90), ("redelivered_total", 3),
        ].map { Substring("pathmirror_feed_\($0.0){feed=\"n/orders\"} \($0.1)") }
        #expect(lines == Set(expected))
    }

    @Test func counterAndGauge() {
        let text = Self.text([Self.facts("orders", isUp: false)])
        #expect(text.contains("# TYPE pathmirror_feed_delivered_total counter\n"))
        #expect(text.contains("# TYPE pathmirror_feed_dead_letters gauge\n"))
        #expect(text.contains("pathmirror_feed_up{feed=\"n/orders\"} 0\n"))
    }

    @Test func withoutFeedsThereIsNothing() { #expect(Self.text([]).isEmpty) }

    /// However many feeds there are, the answer's size is bounded.
    @Test func soManyAndNoMore() {
        let text = Self.text((0..<1_500).reversed().map { Self.facts("f\(10_000 + $0)") })
        #expect(text.split(separator: "\n").filter { $0.hasPrefix("pathmirror_feed_up{") }.count == 1_000)
        #expect(text.contains("n/f10999\"") && !text.contains("n/f11000\""))
    }
}
