import Engine
import Gateway
import HTTPServer
import LogStore
import Mirrors
import Runtime

/// The options that `dev` and `serve` have in common, as settings of the rooms.
struct ServiceOptions {
    static let options =
        AuthenticationOptions.options + OriginOptions.options + TLSOptions.options + LimitOptions.options + own

    private static let own: [OptionSpecification] = [
        .init("rules", "FILE", "security rules, as for the original database"),
        .init("loops", "N", "event loops (threads) for requests; default: one a core, at most 4"),
        .init("committers", "N", "threads that commit, each with a connection; default 2"),
        .init("workers", "N", "threads for large bodies and answers; default 2"),
        .init("max-connections", "N", "the most connections at once; default 50000"),
        .init("max-streams", "N", "the most event streams at once; default 100000"),
        .init("header-timeout-ms", "N", "how long a request's headers may take; default 15000"),
        .init("body-timeout-ms", "N", "how long a body may take beyond 1 KiB a second; default 15000"),
        .init("idle-timeout-ms", "N", "how long a connection may wait for its next request; default 75000"),
        .init("write-stall-timeout-ms", "N", "how long a client may take nothing of an answer; default 30000"),
        .init("sse-keepalive-ms", "N", "how often a stream is sent a keep-alive; default 30000"),
        .init("sse-buffer-bytes", "N", "bytes that wait for a slow stream before it is conflated; default 1048576"),
        .init(
            "session-timeout-ms", "N",
            "how long a realtime client may be silent before it is taken for gone; default 60000"),
        .init(
            "keepalive-timeout-ms", "N",
            "how long a realtime client may do no more than answer pings before it is taken for gone; default 120000"),
        .init(
            "transaction-turn-ms", "N",
            "how long transactions that contend for a path wait for a client that has its turn and does nothing, 0 for no turns; default 400"
        ),
        .init("max-sessions", "N", "the most realtime clients at once; default 100000"),
        .init(
            "session-label", "HEX",
            "what ids of realtime sessions begin with, up to 8 hex digits, for a proxy that must know the gateway by it"
        ),
        .init("heartbeat-ms", "N", "how often the gateway says in the database that it is alive; default 3000"),
        .init("dead-after-ms", "N", "how long a gateway says nothing before others end its sessions; default 15000"),
        .init("max-resume-entries", "N", "the most entries that a resuming stream is replayed; default 100000"),
        .init("max-batch-writes", "N", "the most writes in one SQL transaction; default 1000"),
        .init("max-waiting-writes", "N", "the most writes of a namespace that wait; default 50000"),
        .init("commit-deadline-ms", "N", "how long a write waits for a lost database; default 10000"),
        .init(
            "synchronous-commit", "LEVEL",
            "what PostgreSQL waits for before a write is acknowledged: on, remote_apply, remote_write, local or off; default on"
        ),
        .init("poll-ms", "N", "how often the log is looked at although nothing was announced; default 1000"),
        .init("shutdown-ms", "N", "how long a shutdown waits for requests under way; default 10000"),
        .init("log-format", "text|json", "how log lines are written; default text"),
        .init("log-level", "LEVEL", "debug, info, notice, warning or error; default info"),
    ]

    var engine = EngineSettings()
    var gateway = GatewaySettings()
    var server = HTTPServerSettings()
    var connection = LogConnection.Settings()
    var mirrors = MirrorSettings()
    let authentication: AuthenticationOptions
    var credentials: Gateway.Credentials
    let tls: TLSOptions?
    /// What `--allow-origin` says.
    let origins: [AllowedOrigin]
    /// Whether `--rules` was given.
    var hasRulesFile = false
    var shutdownMilliseconds = 10_000
    let logger: Logger

    init(_ arguments: ParsedArguments) throws {
        guard let format = Logger.Format(rawValue: arguments["log-format"] ?? "text") else {
            throw UsageError("--log-format must be text or json.")
        }
        guard let level = Logger.Level(name: arguments["log-level"] ?? "info") else {
            throw UsageError("--log-level must be debug, info, notice, warning or error.")
        }
        logger = Logger(level: level, format: format)
        authentication = try AuthenticationOptions(arguments)
        credentials = authentication.credentials
        origins = try OriginOptions.read(arguments)
        tls = try TLSOptions(arguments)
        for warning in authentication.warnings + (tls.map(\.warnings) ?? []) { warning.log(logger) }
        try LimitOptions.take(arguments, &gateway, &server)
        if let tls {
            server.tls = tls.identity
            server.tlsAddresses = [tls.address]
            gateway.strictTransportSeconds = tls.strictTransportSeconds ?? 0
        }
        server.loops = try arguments.integer("loops", in: 1...256) ?? min(4, Processors.count)
        if let count = try arguments.integer("committers", in: 1...64) { engine.committers = count }
        if let count = try arguments.integer("workers", in: 1...64) { gateway.workers = count }
        server.maxBodyBytes = gateway.maxBodyBytes
        server.maxPlainBodyBytes = gateway.maxPlainBodyBytes
        server.memory = gateway.memory
        server.maxHeaderBytes = 80 * 1024
        server.maxTargetBytes = 80 * 1024
        if let count = try arguments.integer("max-connections", in: 1...10_000_000) { server.maxConnections = count }
        if let count = try arguments.integer("max-streams", in: 0...10_000_000) { gateway.maxStreams = count }
        let day = 1...86_400_000
        if let time = try arguments.integer("header-timeout-ms", in: day) { server.headerTimeoutMilliseconds = time }
        if let time = try arguments.integer("body-timeout-ms", in: day) { server.bodyTimeoutMilliseconds = time }
        if let time = try arguments.integer("idle-timeout-ms", in: day) { server.idleTimeoutMilliseconds = time }
        if let time = try arguments.integer("write-stall-timeout-ms", in: day) {
            server.writeStallTimeoutMilliseconds = time
        }
        if let time = try arguments.integer("sse-keepalive-ms", in: day) { gateway.streamKeepAliveMilliseconds = time }
        if let size = try arguments.integer("sse-buffer-bytes", in: 1...(1 << 30)) { gateway.streamBufferBytes = size }
        if let time = try arguments.integer("session-timeout-ms", in: 100...86_400_000) {
            gateway.sessionTimeoutMilliseconds = time
        }
        if let time = try arguments.integer("keepalive-timeout-ms", in: 100...86_400_000) {
            gateway.keepAliveTimeoutMilliseconds = time
        }
        if let time = try arguments.integer("transaction-turn-ms", in: 0...60_000) {
            gateway.transactionSlotMilliseconds = time
        }
        if let count = try arguments.integer("max-sessions", in: 0...10_000_000) { gateway.maxSessions = count }
        gateway.sessionLabel = try Self.sessionLabel(arguments)
        if let time = try arguments.integer("heartbeat-ms", in: 10...3_600_000) {
            engine.heartbeatMilliseconds = Int64(time)
        }
        if let time = try arguments.integer("dead-after-ms", in: day) { engine.leaseExpiryMilliseconds = Int64(time) }
        guard engine.leaseExpiryMilliseconds > engine.heartbeatMilliseconds else {
            throw UsageError("--dead-after-ms must be longer than --heartbeat-ms.")
        }
        if let count = try arguments.integer("max-resume-entries", in: 0...1_000_000_000) {
            gateway.maxResumeEntries = Int64(count)
        }
        if let count = try arguments.integer("max-batch-writes", in: 1...100_000) { engine.maxBatchWrites = count }
        if let count = try arguments.integer("max-waiting-writes", in: 1...10_000_000) {
            engine.maxWaitingWrites = count
        }
        if let time = try arguments.integer("commit-deadline-ms", in: day) {
            engine.commitDeadlineMilliseconds = Int64(time)
        }
        if let level = arguments["synchronous-commit"] {
            guard ["on", "remote_apply", "remote_write", "local", "off"].contains(level) else {
                throw UsageError("--synchronous-commit must be on, remote_apply, remote_write, local or off.")
            }
            connection.synchronousCommit = level
        }
        if let time = try arguments.integer("poll-ms", in: 10...60_000) {
            engine.pollMilliseconds = time
            mirrors.pollMilliseconds = Int64(time)
        }
        mirrors.environment = Environment.current.all
        mirrors.gateway = Processors.hostAndProcess
        if let time = try arguments.integer("shutdown-ms", in: 0...3_600_000) { shutdownMilliseconds = time }
        if let file = arguments["rules"] {
            engine.defaultRules = try RulesFile.load(file)
            hasRulesFile = true
        }
        if let time = try arguments.integer("long-stretch-ms", in: 0...3_600_000) {
            server.longStretchMilliseconds = time
            engine.longStretchMilliseconds = time
        }
        server.onLongStretch = { [logger] loop, kind, nanoseconds, count in
            logger.longStretch(of: loop, kind, nanoseconds, count)
        }
        server.errorBody = { _, text in ("application/json; charset=utf-8", ErrorReply.body(text)) }
    }

    private static func sessionLabel(_ arguments: ParsedArguments) throws -> String {
        let label = arguments["session-label"] ?? ""
        // Ids are hex digits: they go into a page (see GatewayLoop.longPoll).
        guard label.utf8.count <= 8, label.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
        else { throw UsageError("--session-label must be at most 8 hex digits (0 to 9, a to f).") }
        return label
    }
}
