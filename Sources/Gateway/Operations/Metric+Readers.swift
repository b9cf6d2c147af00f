import Runtime

extension Metric {
    static let retention: [Metric] = [
        .counter(
            "retention_dropped_entries_total", "Entries of logs that were dropped by retention.",
            action: """
                Alert `PathmirrorLogGrows` if it stands still for a week while gateways commit many writes: see the \
                next two metrics.
                """
        ) { $0.retention.dropped },
        .counter(
            "retention_failures_total", "Times that a log could not be pruned.",
            action: "Alert `PathmirrorRetentionFailing`: `pathmirror retention ls` shows the reason."
        ) { $0.retention.failures },
        .gauge(
            "retention_held_back_namespaces", "Namespaces whose log a reader needs for longer than retention keeps it.",
            action: "Alert `PathmirrorRetentionHeldBack` above 0: `pathmirror retention ls` names the reader."
        ) { $0.retention.heldBack },
    ]

    static let mirrors: [Metric] = [
        .gauges(
            "mirror_up", by: "mirror", "1 while the mirror follows the log.",
            action: "Alert `PathmirrorMirrorNotRunning` on 0: `pathmirror mirror status` shows the reason."
        ) { $0.ofMirrors { $0.state == "running" ? 1 : 0 } },
        .gauges(
            "mirror_lag_entries", by: "mirror", "Entries that the mirror's table lacks.",
            action: "Grows: the PostgreSQL of the tables is too slow for the writes."
        ) { $0.ofMirrors { Int($0.lagEntries) } },
        .seconds(
            "mirror_lag_seconds", by: "mirror", "Time for which the mirror's table has lacked entries.",
            action: "Alert `PathmirrorMirrorLagging` above 300: see `pathmirror_mirror_lag_entries`."
        ) { $0.ofMirrors { Double($0.lagMilliseconds) / 1_000 } },
    ]

    static let feeds: [Metric] = [
        .gauges(
            "feed_up", by: "feed", "1 while the feed's messages are delivered.",
            action: """
                Alert [`PathmirrorFeedNotRunning`](../runbook.md#pathmirrorfeednotrunning) on 0: `pathmirror feed \
                status`.
                """
        ) { $0.ofFeeds { $0.isUp ? 1 : 0 } },
        .seconds(
            "feed_lag_seconds", by: "feed", "Age of the oldest entry whose messages are not all acknowledged.",
            action: """
                Alert [`PathmirrorFeedLagging`](../runbook.md#pathmirrorfeedlagging): too few consumers, or none.
                """
        ) { $0.ofFeeds { Double($0.lagMilliseconds) / 1_000 } },
        .gauges(
            "feed_held_messages", by: "feed", "Messages that consumers hold.",
            action: "0 with lag: no consumer pulls. Many with lag: consumers do not acknowledge."
        ) { $0.ofFeeds { Int($0.heldMessages) } },
        .gauges(
            "feed_dead_letters", by: "feed", "Messages that failed for the last time.",
            action: """
                Alert [`PathmirrorFeedDeadLetters`](../runbook.md#pathmirrorfeeddeadletters): `pathmirror feed \
                dead ls`.
                """
        ) { $0.ofFeeds { Int($0.deadLetters) } },
        .seconds(
            "feed_holds_back_seconds", by: "feed",
            "Time for which the feed has kept the log from being pruned beyond its retention.",
            action: """
                Alert [`PathmirrorFeedHoldsBackPruning`](../runbook.md#pathmirrorfeedholdsbackpruning): the log \
                grows.
                """
        ) { $0.ofFeeds { Double($0.holdsBackMilliseconds) / 1_000 } },
        .counters(
            "feed_acknowledged_total", by: "feed", "Messages that were acknowledged since the feed was created.",
            action: "The feed's throughput. Stands still with lag: see `pathmirror_feed_held_messages`."
        ) { $0.ofFeeds { Int($0.acknowledged) } },
        .counters(
            "feed_redelivered_total", by: "feed", "Deliveries that were not the first of their message.",
            action: """
                Grows: consumers fail, or miss the deadline of acknowledgements. Raise it, or let them pull fewer at \
                once.
                """
        ) { $0.ofFeeds { Int($0.redelivered) } },
    ]
}
