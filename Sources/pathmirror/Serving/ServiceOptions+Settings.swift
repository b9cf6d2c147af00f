import Engine
import Gateway
import HTTPServer
import LogStore
import Mirrors
import Retention
import Runtime

extension ServiceOptions {
    /// What `dev` and `serve` have in common, besides what has a file of its own.
    static let settings: [ServiceSetting] = [
        .number("loops", 1...256, "event loops (threads) for requests; default: one a core, at most 4") {
            $0.server.loops = $1
        },
        .number("committers", 1...64, "threads that commit, each with a connection; default 4") {
            $0.engine.committers = $1
        },
        .number(
            "batch-wait-us", 0...1_000_000,
            "microseconds that a batch waits at most for those who were just answered; default 1000, 0: none"
        ) {
            $0.engine.batchWaitMicroseconds = $1
        },
        .number(
            "batches-under-way", 1...8,
            "the most batches of a namespace on their way to the database at once; default 2"
        ) {
            $0.engine.batchesUnderWay = $1
        },
        .number(
            "joint-namespaces", 1...1_000,
            "the most namespaces whose batches share a transaction; default 64, 1: each has its own"
        ) {
            $0.engine.jointNamespaces = $1
        },
        .number("joint-rows", 1...100_000, "the most rows of such a transaction; default 1000") {
            $0.engine.jointRows = $1
        },
        .number(
            "joint-lock-ms", 1...500,
            "milliseconds that it waits for a lock before each batch goes alone; default 10"
        ) {
            $0.engine.jointLockMilliseconds = $1
        },
        .number(
            "joint-evaluation-us", 1...1_000_000,
            "microseconds for which batches are evaluated until it is sent; default 5000"
        ) {
            $0.engine.jointEvaluationMicroseconds = $1
        },
        .number(
            "announce-ms", 0...1_000,
            "the least milliseconds between two announcements of commits to other gateways; default 2"
        ) {
            $0.engine.announceMilliseconds = $1
        },
        .number("workers", 1...64, "threads for large bodies and answers; default 2") {
            $0.gateway.workers = $1
        },
        .number("max-connections", 1...10_000_000, "the most connections at once; default 50000") {
            $0.server.maxConnections = $1
        },
        .number("max-streams", 0...10_000_000, "the most event streams at once; default 100000") {
            $0.gateway.maxStreams = $1
        },
        .number(
            "max-log-readers", 0...1_000_000, "the most readers of /.log at once, each with up to 2 MB; default 128"
        ) {
            $0.gateway.maxLogReadings = $1
        },
        .number("log-reader-threads", 1...64, "threads that read the log for /.log, each with a connection; default 2")
        {
            $0.engine.logReaders = $1
        },
        .number("log-poll-ms", 1...600_000, "how long a long poll of /.log waits; default 20000") {
            $0.gateway.logPollMilliseconds = $1
        },
        .number("header-timeout-ms", day, "how long a request's headers may take; default 15000") {
            $0.server.headerTimeoutMilliseconds = $1
        },
        .number("body-timeout-ms", day, "how long a body may take beyond 1 KiB a second; default 15000") {
            $0.server.bodyTimeoutMilliseconds = $1
        },
        .number("idle-timeout-ms", day, "how long a connection may wait for its next request; default 75000") {
            $0.server.idleTimeoutMilliseconds = $1
        },
        .number("write-stall-timeout-ms", day, "how long a client may take nothing of an answer; default 30000") {
            $0.server.writeStallTimeoutMilliseconds = $1
        },
        .number("sse-keepalive-ms", day, "how often a stream is sent a keep-alive; default 30000") {
            $0.gateway.streamKeepAliveMilliseconds = $1
        },
        .number(
            "sse-buffer-bytes", 1...(1 << 30),
            "bytes that wait for a slow stream before it is conflated; default 1048576"
        ) {
            $0.gateway.streamBufferBytes = $1
        },
        .number(
            "session-timeout-ms", 100...86_400_000,
            "how long a realtime client may be silent before it is taken for gone; default 60000"
        ) {
            $0.gateway.sessionTimeoutMilliseconds = $1
        },
        .number(
            "keepalive-timeout-ms", 100...86_400_000,
            "how long a realtime client may do no more than answer pings before it is taken for gone; default 120000"
        ) {
            $0.gateway.keepAliveTimeoutMilliseconds = $1
        },
        .number(
            "transaction-turn-ms", 0...60_000,
            "how long transactions that contend for a path wait for a client that has its turn and does nothing, 0 for no turns; default 400"
        ) {
            $0.gateway.transactionSlotMilliseconds = $1
        },
        .number("max-sessions", 0...10_000_000, "the most realtime clients at once; default 100000") {
            $0.gateway.maxSessions = $1
        },
        .text(
            "session-label", "HEX",
            "what ids of realtime sessions begin with, up to 8 hex digits, for a proxy that must know the gateway by it"
        ) { $0.gateway.sessionLabel = try sessionLabel($1) },
        .number(
            "heartbeat-ms", 10...3_600_000,
            "how often the gateway says in the database that it is alive; default 3000"
        ) {
            $0.engine.heartbeatMilliseconds = $1
        },
        .number("dead-after-ms", day, "how long a gateway says nothing before others end its sessions; default 15000") {
            $0.engine.leaseExpiryMilliseconds = $1
        },
        .number(
            "max-resume-entries", 0...1_000_000_000,
            "the most entries that a resuming stream is replayed; default 100000"
        ) {
            $0.gateway.maxResumeEntries = $1
        },
        .number("max-batch-writes", 1...100_000, "the most writes in one SQL transaction; default 1000") {
            $0.engine.maxBatchWrites = $1
        },
        .number("max-waiting-writes", 1...10_000_000, "the most writes of a namespace that wait; default 50000") {
            $0.engine.maxWaitingWrites = $1
        },
        .number("commit-deadline-ms", day, "how long a write waits for a lost database; default 10000") {
            $0.engine.commitDeadlineMilliseconds = $1
        },
        .text(
            "synchronous-commit", "LEVEL",
            "what PostgreSQL waits for before a write is acknowledged: on, remote_apply, remote_write, local or off; default on"
        ) { $0.connection.synchronousCommit = try commitLevel($1) },
        .number(
            "poll-ms", 10...60_000,
            "how often the log is looked at although nothing was announced; default 1000"
        ) { (options: inout ServiceOptions, time: Milliseconds) in
            options.engine.pollMilliseconds = Milliseconds(time)
            options.mirrors.pollMilliseconds = time
        },
        .number(
            "remember-writes-days", 1...3_650,
            "how long after its last write a client's named writes are known again; default 30"
        ) { (options: inout ServiceOptions, days: Int64) in
            options.retention.rememberedWriteDays = days
        },
        .number(
            "retention-interval-ms", 0...86_400_000,
            "how often logs are shortened as 'pathmirror retention set' says, 0 for never by this gateway; default 60000"
        ) {
            $0.retention.intervalMilliseconds = $1
        },
        .number("shutdown-ms", 0...3_600_000, "how long a shutdown waits for requests under way; default 10000") {
            $0.shutdownMilliseconds = $1
        },
    ]

    /// Times up to a day.
    private static let day = 1...86_400_000

    private static func commitLevel(_ text: String) throws -> String {
        guard ["on", "remote_apply", "remote_write", "local", "off"].contains(text) else {
            throw UsageError("--synchronous-commit must be on, remote_apply, remote_write, local or off.")
        }
        return text
    }

    private static func sessionLabel(_ text: String) throws -> String {
        // Ids are hex digits: they go into a page (see GatewayLoop.longPoll).
        guard text.utf8.count <= 8, text.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
        else { throw UsageError("--session-label must be at most 8 hex digits (0 to 9, a to f).") }
        return text
    }
}
