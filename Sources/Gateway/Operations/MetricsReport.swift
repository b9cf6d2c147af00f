import Engine
import HTTPServer
import Placement
import Runtime

/// The numbers at `/.metrics`.
struct MetricsReport {
    let text: String

    init(_ facts: GatewayFacts) {
        var metrics = MetricsText()
        Self.addEngine(facts.databases.home.engine.metrics, &metrics)
        Self.addDatabases(facts.databases, &metrics)
        Self.addTransports(facts, &metrics)
        let report = facts.serverReport()
        Self.addServer(report, &metrics)
        Self.addMirrors(report.mirrors, &metrics)
        FeedGauges(report.feeds).write(to: &metrics)
        Self.addRetention(report.retention, &metrics)
        Self.addBounds(facts, report.stretches + facts.databases.all.flatMap(\.engine.stretches), &metrics)
        text = metrics.text
    }

    private static func addJoint(_ counts: EngineMetrics, _ metrics: inout MetricsText) {
        metrics.counter(
            "pathmirror_joint_transactions_total", "SQL transactions with batches of several namespaces.",
            counts.jointTransactions.current)
        metrics.counter(
            "pathmirror_joint_namespaces_total", "Batches that were committed in such transactions.",
            counts.jointNamespaces.current)
        metrics.counter(
            "pathmirror_joint_retries_total", "Such transactions that came to nothing, so that each batch went alone.",
            counts.jointRetries.current)
    }

    /// - Parameter counts: those that the engines of all databases have in common.
    private static func addEngine(_ counts: EngineMetrics, _ metrics: inout MetricsText) {
        metrics.counter("pathmirror_writes_total", "Writes committed by this gateway.", counts.writes.current)
        metrics.counter(
            "pathmirror_writes_failed_precondition_total", "Writes whose precondition did not hold.",
            counts.failedPreconditions.current)
        metrics.counter("pathmirror_writes_denied_total", "Writes that the rules denied.", counts.deniedWrites.current)
        metrics.counter("pathmirror_writes_failed_total", "Writes that failed.", counts.failedWrites.current)
        metrics.counter(
            "pathmirror_batches_total", "Batches of writes to a namespace that were committed.", counts.batches.current)
        metrics.histogram("pathmirror_batch_size", "Writes in one batch.", counts.batchSize)
        metrics.counter(
            "pathmirror_batches_behind_total", "Batches that were sent before the one before them was answered.",
            counts.batchesBehind.current)
        addJoint(counts, &metrics)
        metrics.histogram(
            "pathmirror_commit_seconds", "From sending a transaction of writes to the answer of its COMMIT.",
            counts.commitSeconds)
        metrics.counter(
            "pathmirror_commit_conflicts_total", "Batches that found the head moved by another gateway.",
            counts.conflicts.current)
        metrics.counter("pathmirror_commit_retries_total", "Batches that were evaluated again.", counts.retries.current)
        metrics.counter(
            "pathmirror_commit_unknown_total", "Batches whose COMMIT was not answered.", counts.unknownCommits.current)
        metrics.counter(
            "pathmirror_repeated_writes_total", "Named writes that came again, and were not done again.",
            counts.repeatedWrites.current)
        metrics.counter(
            "pathmirror_ended_blockers_total", "Sessions in PostgreSQL that held others up and were ended.",
            counts.endedBlockers.current)
        metrics.counter(
            "pathmirror_large_writes_total", "Writes that were prepared beside the others.", counts.largeWrites.current)
        metrics.counter(
            "pathmirror_large_write_retries_total", "Times that a large write was prepared anew.",
            counts.largeWriteRetries.current)
        metrics.counter(
            "pathmirror_followed_entries_total", "Entries read from the log that other gateways wrote.",
            counts.followedEntries.current)
        metrics.counter(
            "pathmirror_taken_back_total",
            "Times that a namespace went back to an older state, as the database had lost entries.",
            counts.takenBack.current)
        metrics.counter(
            "pathmirror_taken_back_entries_total", "Entries that this gateway had and the database has lost.",
            counts.takenBackEntries.current)
        metrics.counter(
            "pathmirror_notifications_total", "Announcements of commits received.", counts.notifications.current)
    }

    private static func addDatabases(_ databases: Databases, _ metrics: inout MetricsText) {
        let all = databases.reachable
        let help = "1 while the database answers."
        // Which one it is, is told where there are several.
        if all.count == 1 {
            metrics.gauge("pathmirror_database_up", help, databases.home.engine.health.isUp ? 1 : 0)
        } else {
            metrics.gauges(
                "pathmirror_database_up", help, label: "database",
                all.map { ($0.name, $0.isUp ? 1 : 0) })
        }
        NamespaceGauges(databases.all.flatMap(\.engine.liveNamespaces)).write(to: &metrics)
        addMemory(databases.memory, databases.home.engine.metrics, &metrics)
    }

    private static func addMemory(_ memory: MemoryFacts, _ counts: EngineMetrics, _ metrics: inout MetricsText) {
        metrics.gauge("pathmirror_tree_bytes", "What namespaces take of memory, by estimate.", memory.bytes)
        metrics.gauge(
            "pathmirror_tree_memory_bytes", "What they may take before some are let go (--tree-memory).", memory.budget)
        metrics.gauge(
            "pathmirror_page_bytes", "What pages, which are parts of large trees, take of memory.",
            memory.pages?.bytesInMemory ?? 0)
        metrics.gauge(
            "pathmirror_page_file_bytes", "What pages take of the disk.", memory.pages?.bytesInFile ?? 0)
        metrics.counter(
            "pathmirror_page_reads_total", "Pages read from the disk.", memory.pages?.reads ?? 0)
        metrics.counter(
            "pathmirror_page_writes_total", "Pages written to the disk.", memory.pages?.writes ?? 0)
        metrics.counter(
            "pathmirror_namespace_loads_total", "Namespaces read from the database.", counts.loads.current)
        metrics.histogram(
            "pathmirror_namespace_load_seconds", "From the first question for a namespace to its tree.",
            counts.loadSeconds)
        metrics.counter(
            "pathmirror_namespaces_let_go_total", "Namespaces that left memory, as it was short.",
            counts.evictions.current)
        metrics.gauge(
            "pathmirror_waiting_loads", "Namespaces that wait to be loaded.", memory.waitingLoads)
    }

    private static func addTransports(_ facts: GatewayFacts, _ metrics: inout MetricsText) {
        let counts = facts.metrics
        metrics.counter("pathmirror_rest_reads_total", "GET requests for data.", counts.reads.current)
        metrics.counter(
            "pathmirror_rest_reads_kept_total", "GET requests whose answer had been written out before.",
            counts.readsKept.current)
        metrics.counter("pathmirror_rest_writes_total", "Requests that write.", counts.writes.current)
        metrics.gauge("pathmirror_listeners", "Open event streams.", counts.streams.current)
        metrics.counter("pathmirror_streams_opened_total", "Event streams opened.", counts.streamsOpened.current)
        metrics.counter(
            "pathmirror_streams_resumed_total", "Event streams that continued without a fresh value.",
            counts.streamsResumed.current)
        metrics.counter("pathmirror_stream_events_total", "Events handed to streams.", counts.streamEvents.current)
        metrics.counter(
            "pathmirror_conflations_total", "Times that a slow stream's events were replaced by a fresh value.",
            counts.conflations.current)
        metrics.gauge("pathmirror_log_readers", "Readers of the log over HTTP.", counts.logReadings.current)
        metrics.gauge("pathmirror_sessions", "Open realtime sessions.", counts.sessions.current)
        metrics.counter("pathmirror_sessions_total", "Realtime sessions opened.", counts.sessionsOpened.current)
        metrics.gauge("pathmirror_listens", "Listens of realtime sessions.", counts.listens.current)
        metrics.gauge(
            "pathmirror_transactions_waiting", "Transactions of realtime sessions that wait for their turn.",
            counts.waitingTransactions.current)
        metrics.counter(
            "pathmirror_listens_resumed_total", "Listens that continued behind an entry that their client had seen.",
            counts.listensResumed.current)
        metrics.counter(
            "pathmirror_listen_events_total", "Events handed to realtime listens.", counts.listenEvents.current)
        metrics.counters(
            "pathmirror_rate_limited_total", "Requests and realtime messages over a limit.", label: "limit",
            facts.limiter.counts.map { ($0.kind.rawValue, $0.count) })
        metrics.counter("pathmirror_client_errors_total", "Requests refused (4xx).", counts.clientErrors.current)
        metrics.counter("pathmirror_server_errors_total", "Requests failed (5xx).", counts.serverErrors.current)
    }

    private static func addServer(_ report: ServerReport, _ metrics: inout MetricsText) {
        let counts = report.server
        metrics.gauge("pathmirror_connections", "Open connections.", counts.activeConnections)
        metrics.counter("pathmirror_connections_total", "Connections accepted.", counts.accepted)
        metrics.counter("pathmirror_http_requests_total", "Requests received.", counts.requests)
        metrics.counter("pathmirror_inbound_bytes_total", "Bytes received.", counts.bytesIn)
        metrics.counter("pathmirror_outbound_bytes_total", "Bytes sent.", counts.bytesOut)
        metrics.counter("pathmirror_http_parse_errors_total", "Requests that were not HTTP.", counts.parseErrors)
        metrics.counter("pathmirror_http_timeouts_total", "Requests that came too slowly.", counts.timeouts)
        metrics.counter("pathmirror_http_rejected_total", "Requests over a bound.", counts.rejected)
        metrics.counter(
            "pathmirror_connections_over_address_limit_total",
            "Connections refused because their address had too many.", counts.overAddressLimit)
        guard let expiresAt = report.certificateExpiresAt else { return }
        metrics.counter("pathmirror_tls_handshakes_total", "TLS handshakes done.", counts.handshakes)
        metrics.counter(
            "pathmirror_tls_resumed_handshakes_total", "Those that went on with an earlier session.",
            counts.resumedHandshakes)
        metrics.counter("pathmirror_tls_failed_handshakes_total", "TLS handshakes failed.", counts.failedHandshakes)
        metrics.gauge(
            "pathmirror_tls_certificate_expiry_seconds", "When the certificate expires, in seconds since 1970.",
            Int(expiresAt))
    }

    private static func addRetention(_ facts: RetentionFacts, _ metrics: inout MetricsText) {
        metrics.counter(
            "pathmirror_retention_dropped_entries_total", "Entries of logs dropped as their retention says.",
            facts.dropped)
        metrics.counter(
            "pathmirror_retention_snapshots_total", "Snapshots taken so that logs can be shortened.", facts.snapshots)
        metrics.counter(
            "pathmirror_retention_failures_total", "Times that a log could not be shortened.", facts.failures)
        metrics.gauge(
            "pathmirror_retention_held_back", "Namespaces whose log a reader still needs more of than is to be kept.",
            facts.heldBack)
    }

    private static func addBounds(_ facts: GatewayFacts, _ stretches: [StretchMeter], _ metrics: inout MetricsText) {
        metrics.gauges(
            "pathmirror_longest_stretch_microseconds",
            "For how long a thread was kept from all else, at most in the last minute or two.", label: "thread",
            stretches.map { ($0.name, Int($0.longest / 1_000)) })
        metrics.counters(
            "pathmirror_long_stretches_total", "Stretches over the bound of the log's warning.", label: "thread",
            stretches.map { ($0.name, $0.tooLongCount) })
        metrics.gauge(
            "pathmirror_memory_taken_bytes", "What bodies, messages and what was parsed of them take of the budget.",
            facts.memory.taken)
        metrics.counter(
            "pathmirror_memory_refused_total", "Times that there was no room for more of it.", facts.memory.refused)
        metrics.gauge(
            "pathmirror_output_queued_bytes", "Bytes of responses and streams that wait for their readers.",
            facts.output.taken)
        metrics.counter(
            "pathmirror_output_refused_total",
            "Responses that were refused, and streams that were ended, because too many such bytes waited.",
            facts.output.refused)
    }

    /// Those that this gateway runs; each mirror is told of by one gateway.
    private static func addMirrors(_ mirrors: [MirrorFacts], _ metrics: inout MetricsText) {
        let here = mirrors.filter { $0.state != "elsewhere" }
        guard !here.isEmpty else { return }
        let name = { (mirror: MirrorFacts) in "\(mirror.namespace)/\(mirror.name)" }
        metrics.gauges(
            "pathmirror_mirror_up", "1 while the mirror follows the log.", label: "mirror",
            here.map { (name($0), $0.state == "running" ? 1 : 0) })
        metrics.gauges(
            "pathmirror_mirror_lag_entries", "Entries that the mirror's table lacks.", label: "mirror",
            here.map { (name($0), Int($0.lagEntries)) })
        metrics.gauges(
            "pathmirror_mirror_lag_milliseconds", "For how long the mirror's table has lacked entries.",
            label: "mirror",
            here.map { (name($0), Int($0.lagMilliseconds)) })
    }
}
