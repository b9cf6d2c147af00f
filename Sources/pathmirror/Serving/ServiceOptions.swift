import Engine
import Gateway
import HTTPServer
import LogStore
import Runtime

/// The options that `dev` and `serve` have in common, as settings of the rooms.
struct ServiceOptions {
    static let options: [OptionSpecification] = [
        .init("rules", "FILE", "security rules, as for the original database"),
        .init("admin-secret-file", "FILE", "a file with a secret that makes whoever sends it an administrator"),
        .init("loops", "N", "event loops (threads) for requests; default: one a core, at most 4"),
        .init("committers", "N", "threads that commit, each with a connection; default 2"),
        .init("workers", "N", "threads for large bodies and answers; default 2"),
        .init("max-body-bytes", "N", "the largest request body; default 268435456"),
        .init("max-connections", "N", "the most connections at once; default 50000"),
        .init("max-streams", "N", "the most event streams at once; default 100000"),
        .init("header-timeout-ms", "N", "how long a request's headers may take; default 15000"),
        .init("body-timeout-ms", "N", "how long a body may take beyond 1 KiB a second; default 15000"),
        .init("idle-timeout-ms", "N", "how long a connection may wait for its next request; default 75000"),
        .init("write-stall-timeout-ms", "N", "how long a client may take nothing of an answer; default 30000"),
        .init("sse-keepalive-ms", "N", "how often a stream is sent a keep-alive; default 30000"),
        .init("sse-buffer-bytes", "N", "bytes that wait for a slow stream before it is conflated; default 1048576"),
        .init("max-resume-entries", "N", "the most entries that a resuming stream is replayed; default 100000"),
        .init("max-batch-writes", "N", "the most writes in one SQL transaction; default 1000"),
        .init("max-waiting-writes", "N", "the most writes of a namespace that wait; default 50000"),
        .init("commit-deadline-ms", "N", "how long a write waits for a lost database; default 10000"),
        .init("poll-ms", "N", "how often the log is looked at although nothing was announced; default 1000"),
        .init("shutdown-ms", "N", "how long a shutdown waits for requests under way; default 10000"),
        .init("log-format", "text|json", "how log lines are written; default text"),
        .init("log-level", "LEVEL", "debug, info, notice, warning or error; default info"),
    ]

    var engine = EngineSettings()
    var gateway = GatewaySettings()
    var server = HTTPServerSettings()
    var session = LogSession.Settings()
    var credentials = Gateway.Credentials()
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
        server.loops = try arguments.integer("loops", in: 1...256) ?? min(4, Processors.count)
        if let count = try arguments.integer("committers", in: 1...64) { engine.committers = count }
        if let count = try arguments.integer("workers", in: 1...64) { gateway.workers = count }
        gateway.maxBodyBytes = try arguments.integer("max-body-bytes", in: 1...(1 << 30)) ?? gateway.maxBodyBytes
        server.maxBodyBytes = gateway.maxBodyBytes
        server.maxBodyMemoryBytes = gateway.maxBodyBytes * 2
        server.maxHeaderBytes = 80 * 1024
        server.maxTargetBytes = 80 * 1024
        if let count = try arguments.integer("max-connections", in: 1...10_000_000) { server.maxConnections = count }
        if let count = try arguments.integer("max-streams", in: 0...10_000_000) { gateway.maxStreams = count }
        let day = 1...86_400_000
        if let time = try arguments.integer("header-timeout-ms", in: day) { server.headerTimeoutMs = time }
        if let time = try arguments.integer("body-timeout-ms", in: day) { server.bodyTimeoutMs = time }
        if let time = try arguments.integer("idle-timeout-ms", in: day) { server.idleTimeoutMs = time }
        if let time = try arguments.integer("write-stall-timeout-ms", in: day) { server.writeStallTimeoutMs = time }
        if let time = try arguments.integer("sse-keepalive-ms", in: day) { gateway.streamKeepAliveMilliseconds = time }
        if let size = try arguments.integer("sse-buffer-bytes", in: 1...(1 << 30)) { gateway.streamBufferBytes = size }
        if let count = try arguments.integer("max-resume-entries", in: 0...1_000_000_000) {
            gateway.maxResumeEntries = Int64(count)
        }
        if let count = try arguments.integer("max-batch-writes", in: 1...100_000) { engine.maxBatchWrites = count }
        if let count = try arguments.integer("max-waiting-writes", in: 1...10_000_000) { engine.maxWaitingWrites = count }
        if let time = try arguments.integer("commit-deadline-ms", in: day) {
            engine.commitDeadlineMilliseconds = Int64(time)
        }
        if let time = try arguments.integer("poll-ms", in: 10...60_000) { engine.pollMilliseconds = time }
        if let time = try arguments.integer("shutdown-ms", in: 0...3_600_000) { shutdownMilliseconds = time }
        try takeSecret(arguments)
        if let file = arguments["rules"] {
            engine.defaultRules = try RulesFile.load(file)
            hasRulesFile = true
        }
        server.errorBody = { _, text in ("application/json; charset=utf-8", ErrorReply.body(text)) }
    }

    private mutating func takeSecret(_ arguments: ParsedArguments) throws {
        guard let file = arguments["admin-secret-file"] else { return }
        var secret = try Files.read(file, maxBytes: 64 * 1024)
        while let last = secret.last, last == 0x0A || last == 0x0D { secret.removeLast() }
        guard secret.count >= 16 else {
            throw CommandFailure("The secret in \(file) must have at least 16 bytes: anybody could guess a shorter one.")
        }
        credentials.administratorSecrets = [Secret(secret)]
    }
}
