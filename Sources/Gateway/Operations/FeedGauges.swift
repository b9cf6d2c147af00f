import Runtime

/// The numbers of the feeds that this gateway works; each feed is told of by one gateway.
struct FeedGauges {
    private let feeds: [FeedFacts]
    /// Feeds that are shown, by their names' order.
    static let mostFeeds = 1_000

    init(_ feeds: [FeedFacts]) {
        self.feeds = Array(
            feeds.sorted { ($0.namespace, $0.name) < ($1.namespace, $1.name) }.prefix(Self.mostFeeds))
    }

    func write(to metrics: inout MetricsText) {
        guard !feeds.isEmpty else { return }
        gauges("pathmirror_feed_up", "1 while the feed's messages are delivered.", &metrics) { $0.isUp ? 1 : 0 }
        gauges("pathmirror_feed_lag_entries", "Entries whose messages are not all done.", &metrics) { $0.lagEntries }
        gauges("pathmirror_feed_lag_seconds", "For how long the oldest of these entries has been waiting.", &metrics) {
            $0.lagMilliseconds / 1_000
        }
        gauges("pathmirror_feed_pending_messages", "Messages in memory that are not done.", &metrics) {
            $0.pendingMessages
        }
        gauges("pathmirror_feed_held_messages", "Messages that consumers hold.", &metrics) { $0.heldMessages }
        gauges("pathmirror_feed_dead_letters", "Messages that failed for the last time.", &metrics) { $0.deadLetters }
        gauges(
            "pathmirror_feed_oldest_unacknowledged_seconds", "Since when the oldest message waits that is not done.",
            &metrics
        ) {
            $0.oldestMilliseconds / 1_000
        }
        gauges(
            "pathmirror_feed_holds_back_seconds", "For how long the feed has held pruning back beyond its retention.",
            &metrics
        ) { $0.holdsBackMilliseconds / 1_000 }
        counters("pathmirror_feed_delivered_total", "Deliveries of messages since the feed was made.", &metrics) {
            $0.delivered
        }
        counters("pathmirror_feed_acknowledged_total", "Messages acknowledged since the feed was made.", &metrics) {
            $0.acknowledged
        }
        counters(
            "pathmirror_feed_redelivered_total", "Those of the deliveries that were not a message's first.", &metrics
        ) {
            $0.redelivered
        }
    }

    private func gauges(_ name: String, _ help: String, _ metrics: inout MetricsText, _ value: (FeedFacts) -> Int64) {
        metrics.gauges(name, help, label: "feed", values(value))
    }

    private func counters(_ name: String, _ help: String, _ metrics: inout MetricsText, _ value: (FeedFacts) -> Int64) {
        metrics.counters(name, help, label: "feed", values(value))
    }

    private func values(_ value: (FeedFacts) -> Int64) -> [(String, Int)] {
        feeds.map { ("\($0.namespace)/\($0.name)", Int(value($0))) }
    }
}
