import Runtime

extension Metric {
    static let followers: [Metric] = [
        .gauges(
            "follower_up", by: "namespace", "1 while the namespace follows its upstream database without a problem.",
            action: """
                Alert [`PathmirrorFollowerDoesNotFollow`](../runbook.md#pathmirrorfollowerdoesnotfollow) on 0: \
                `pathmirror follow status` shows the state, its cause and the fix.
                """
        ) { $0.ofFollowers { $0.isUp ? 1 : 0 } },
        .gauges(
            "followers", by: "state", "Followers in each state, as in `pathmirror follow status`.",
            action: """
                Several in one state other than `following`: they have the cause in common, such as credentials, the \
                network, or the upstream.
                """
        ) { $0.followersByState },
        .seconds(
            "follower_lag_seconds", by: "namespace",
            "Time from the arrival of the last upstream message to its commit.",
            action: """
                Over 1 s for longer than a resynchronization: PostgreSQL commits too slowly, see \
                `pathmirror_commit_seconds`.
                """
        ) { $0.ofFollowers { $0.lagMilliseconds.map { Double($0) / 1_000 } } },
        .counters(
            "follower_received_bytes_total", by: "namespace",
            "Bytes that were received from the upstream since the namespace began to follow.",
            action: """
                The upstream's provider charges for them. Grows without entries: see `pathmirror_follower_resyncs_total`.
                """
        ) { $0.ofFollowers { Int($0.receivedBytes) } },
        .ratios(
            "follower_daily_limit_ratio", by: "namespace",
            "Share of the daily limit of bytes that was received today (UTC). Only with a limit.",
            action: """
                Alert [`PathmirrorFollowerOverBudget`](../runbook.md#pathmirrorfolloweroverbudget) above 0.9: at 1 the \
                follower stops until the next day.
                """
        ) { $0.ofFollowers(\.dailyLimitRatio) },
        .counters(
            "follower_entries_total", by: "namespace",
            "Entries of the log that were written for the upstream since the namespace began to follow.",
            action: "Stands still while apps write to the upstream: `pathmirror follow verify` compares both."
        ) { $0.ofFollowers { Int($0.entries) } },
        .counters(
            "follower_resyncs_total", by: "namespace",
            "Entries that contain the difference after a gap, and not one message.",
            action: """
                Grows often: the connection to the upstream ends again and again, and each gap costs bytes. The log \
                of the gateway has the reasons.
                """
        ) { $0.ofFollowers { Int($0.resyncs) } },
    ]
}
