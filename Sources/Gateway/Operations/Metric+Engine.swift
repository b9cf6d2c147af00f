import Engine
import Runtime

extension Metric {
    static let writes: [Metric] = [
        .counter(
            "writes_total", "Writes that this gateway committed.",
            action: """
                Falls while requests arrive: look at `pathmirror_writes_refused_total`, then at \
                `pathmirror_commit_seconds`.
                """
        ) { $0.engine.writes.current },
        .counters(
            "writes_refused_total", by: "reason", "Writes that were not committed.",
            action: """
                `rules`: rules or a client changed; `pathmirror rules explain` judges one write. `precondition`: \
                clients compete for a path. `database`: alert `PathmirrorWritesRefusedByDatabase` if PostgreSQL answers; \
                see the log.
                """
        ) {
            [
                ("rules", $0.engine.deniedWrites.current), ("precondition", $0.engine.failedPreconditions.current),
                ("database", $0.engine.failedWrites.current),
            ]
        },
        .histogram(
            "batch_writes", "Writes in one batch, which is committed as a whole.",
            action: """
                Large batches with slow commits: the disk of PostgreSQL is the limit. Small batches: the clients \
                are.
                """
        ) { $0.engine.batchSize },
        .counter(
            "pipelined_batches_total",
            "Batches that were sent before the previous batch of their namespace was answered.",
            action: """
                Grows as fast as batches while commits are slow: the round trip to PostgreSQL is long. Move the gateway \
                nearer to it.
                """
        ) { $0.engine.pipelinedBatches.current },
        .histogram(
            "commit_seconds", "Time from sending a transaction of writes to the answer of its COMMIT.",
            action: """
                Alert `PathmirrorSlowCommits`. Over 1 s: the disk of PostgreSQL, its standby, or locks; run \
                `pathmirror doctor`.
                """
        ) { $0.engine.commitSeconds },
        .counter(
            "commit_conflicts_total", "Batches that another gateway overtook.",
            action: "Two gateways write one namespace often: route its clients to one of them."
        ) { $0.engine.conflicts.current },
        .counter(
            "commit_unknown_total", "Batches whose COMMIT was not answered.",
            action: """
                Alert `PathmirrorCommitsUnanswered`. A standby that commits wait for is missing, or the network \
                drops connections.
                """
        ) { $0.engine.unknownCommits.current },
        .counter(
            "ended_blockers_total",
            "Connections to PostgreSQL that blocked writers after their gateway vanished, and were ended.",
            action: "Grows: find out what kills gateways or cuts their connections."
        ) { $0.engine.endedBlockers.current },
        .counter(
            "taken_back_total", "Times that a namespace returned to an older state because the database lost entries.",
            action:
                "Alert `PathmirrorEntriesLost` on any: [what was lost](../guides/high-availability.md#what-was-lost)."
        ) { $0.engine.rolledBack.current },
        .counter(
            "taken_back_entries_total", "Entries that this gateway had and the database lost.",
            action: "The extent of the loss; the gateway's log names the entries."
        ) { $0.engine.rolledBackEntries.current },
    ]

    static let namespaces: [Metric] = [
        .gauge(
            "namespaces", "Namespaces in memory.",
            action: "Shows, with `pathmirror_tree_bytes`, whether `--tree-memory` fits the use."
        ) { $0.namespaces.count },
        .gauge(
            "tree_bytes", "Estimated memory of namespaces.",
            action: """
                Alert `PathmirrorTreesOverMemory` when over `pathmirror_tree_limit_bytes`: raise `--tree-memory`, or \
                move namespaces.
                """
        ) { $0.memory?.bytes },
        .gauge(
            "tree_limit_bytes", "Memory that namespaces may take before some are evicted (`--tree-memory`).",
            action: "The bound of `pathmirror_tree_bytes`."
        ) { $0.memory?.budget },
        .gauge(
            "page_file_bytes", "Size of the page file.",
            action: """
                Alert `PathmirrorPageFileFull` near four times `--tree-memory`. The disk of `--page-directory` must \
                hold it.
                """
        ) { $0.memory.map { $0.pages?.bytesInFile ?? 0 } },
        .counter(
            "page_reads_total", "Pages of large trees that were read from the page file.",
            action: "Grows with slow reads: the trees in use are larger than memory. Raise `--tree-memory`."
        ) { $0.memory.map { $0.pages?.reads ?? 0 } },
        .counter(
            "namespace_loads_total", "Namespaces that were loaded from the database.",
            action: """
                Alert `PathmirrorNamespacesComeAndGo` when this counter and `pathmirror_namespaces_evicted_total` grow fast: \
                raise `--tree-memory`.
                """
        ) { $0.engine.loads.current },
        .counter(
            "namespaces_evicted_total", "Namespaces that were evicted because memory was short.",
            action: "See `pathmirror_namespace_loads_total`."
        ) { $0.engine.evictions.current },
        .histogram(
            "namespace_load_seconds", "Time from the first request for a namespace to its tree.",
            action: "First requests are slow: namespaces are large, or PostgreSQL reads from disk."
        ) { $0.engine.loadSeconds },
        .gauge(
            "namespace_loads_waiting", "Namespaces that wait to be loaded.",
            action: "Stays above 0: raise `--committers`, or keep the namespaces in memory."
        ) { $0.memory?.waitingLoads },
        .gauges(
            "tree_rows", by: "namespace", "Leaves and priorities in the tree.",
            action: "Shows which namespace grows."
        ) { sources in sources.namespaces.facts.map { ($0.name, $0.rows) } },
        .gauges(
            "writes_waiting", by: "namespace", "Writes that wait for a batch.",
            action: "Shows in which namespace writers wait. When 50,000 wait, writes are refused."
        ) { sources in sources.namespaces.facts.map { ($0.name, $0.waiting) } },
    ]

    static let databases: [Metric] = [
        .gauges(
            "database_up", by: "database", "1 while the database answers.",
            action: "Alert `PathmirrorDatabaseDown` on 0: repair PostgreSQL."
        ) { sources in sources.databases.map { ($0.name, $0.isUp ? 1 : 0) } },
        .counter(
            "notifications_total", "Announcements of commits that were received from other gateways.",
            action: """
                0 while another gateway writes: a connection pooler is between the gateway and PostgreSQL. Connect \
                directly.
                """
        ) { $0.engine.notifications.current },
        .gauges(
            "log_head_seq", by: "namespace", "The newest seq that this gateway has applied.",
            action: """
                Alert `PathmirrorGatewaysDisagree` when gateways differ: one does not follow the log. See its log \
                lines.
                """
        ) { sources in sources.namespaces.facts.compactMap { fact in fact.head.map { (fact.name, $0) } } },
        .gauges(
            "tail_lag_entries", by: "namespace", "Entries in the log that this gateway has not applied yet.",
            action: """
                Alert `PathmirrorTailLagging`: reads and listeners are late. The gateway lacks processor time, or \
                PostgreSQL is slow.
                """
        ) { sources in sources.namespaces.facts.map { ($0.name, $0.lag) } },
    ]
}
