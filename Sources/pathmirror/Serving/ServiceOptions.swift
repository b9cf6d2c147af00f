import Engine
import Feeds
import Gateway
import HTTPClient
import HTTPServer
import LogStore
import Mirrors
import Retention
import Runtime

/// The options that `dev` and `serve` have in common, as settings of the rooms.
struct ServiceOptions {
    static let options =
        AuthenticationOptions.options + OriginOptions.options + TLSOptions.options + LimitOptions.options
        + [rulesOption, DatabaseLogins.option] + (settings + memorySettings + feedSettings).map(\.specification)
        + logOptions

    private static let rulesOption = OptionSpecification(
        "rules", "FILE", "security rules, as for the original database")

    private static let logOptions: [OptionSpecification] = [
        .init("log-format", "text|json", "how log lines are written; default text"),
        .init("log-level", "LEVEL", "debug, info, notice, warning or error; default info"),
    ]

    var engine = EngineSettings()
    var gateway = GatewaySettings()
    var server = HTTPServerSettings()
    var connection = LogConnection.Settings()
    var mirrors = MirrorSettings()
    var feeds = FeedSettings()
    var retention = RetentionSettings()
    var pages = Pages()
    /// Private addresses that webhooks may go to.
    var webhookExceptions = AddressPolicy.Exceptions()
    /// Where NATS and Kafka may be to which feeds deliver.
    var sinkServers = AddressPolicy.Exceptions()
    /// The process's variables, of which sinks see some.
    let environment: [String: String]
    let authentication: AuthenticationOptions
    var credentials: Gateway.Credentials
    let tls: TLSOptions?
    /// What `--allow-origin` says.
    let origins: [AllowedOrigin]
    /// How to get into databases besides the home.
    let databaseLogins: DatabaseLogins
    /// Whether schemas are brought to this program's version.
    var migrates = true
    /// Whether `--rules` was given.
    var hasRulesFile = false
    var shutdownMilliseconds: Milliseconds = 10_000
    let logger: Logger

    /// - Parameter logDescriptor: where the log goes.
    init(_ arguments: ParsedArguments, logDescriptor: Int32) throws {
        guard let format = Logger.Format(rawValue: arguments["log-format"] ?? "text") else {
            throw UsageError("--log-format must be text or json.")
        }
        guard let level = Logger.Level(name: arguments["log-level"] ?? "info") else {
            throw UsageError("--log-level must be debug, info, notice, warning or error.")
        }
        environment = arguments.environment.all
        logger = Logger(level: level, format: format, descriptor: logDescriptor)
        authentication = try AuthenticationOptions(arguments)
        credentials = authentication.credentials
        origins = try OriginOptions.read(arguments)
        tls = try TLSOptions(arguments)
        databaseLogins = DatabaseLogins(arguments)
        try databaseLogins.warning()?.log(logger)
        for warning in authentication.warnings + (tls.map(\.warnings) ?? []) { warning.log(logger) }
        let unread = UnreadVariables.names(arguments.environment)
        if !unread.isEmpty {
            logger.warning(
                "environment variables are ignored, as no option has their name",
                [("variables", unread.joined(separator: ","))])
        }
        try LimitOptions.take(arguments, &gateway, &server)
        server.loops = min(4, Processors.count)
        engine.program = VersionCommand.program
        engine.treeMemoryBytes = Self.defaultTreeMemory
        for setting in Self.settings + Self.memorySettings + Self.feedSettings { try setting.take(arguments, &self) }
        deriveSettings()
        try Tuning.apply(arguments.environment, to: &self)
        if let file = arguments["rules"] {
            engine.defaultRules = try RulesFile.load(file)
            hasRulesFile = true
        }
        completeServer()
        mirrors.environment = arguments.environment.all
        mirrors.gateway = Processors.hostAndProcess
    }

    /// What of the server's settings follows from others.
    private mutating func completeServer() {
        if let tls {
            server.tls = tls.identity
            server.tlsAddresses = [tls.address]
            gateway.strictTransportSeconds = tls.strictTransportSeconds ?? 0
        }
        server.maxBodyBytes = gateway.maxBodyBytes
        server.maxPlainBodyBytes = gateway.maxPlainBodyBytes
        server.memory = gateway.memory
        server.output = gateway.output
        server.maxHeaderBytes = 80 * 1024
        server.maxTargetBytes = 80 * 1024
        server.onLongStretch = { [logger] loop, kind, nanoseconds, count in
            logger.longStretch(of: loop, kind, nanoseconds, count)
        }
        server.errorBody = { _, text in ("application/json; charset=utf-8", ErrorReply.body(text)) }
    }
}
