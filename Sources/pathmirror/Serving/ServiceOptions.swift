import Engine
import Feeds
import Follower
import Gateway
import Glibc
import HTTPClient
import HTTPServer
import LogStore
import Mirrors
import Retention
import Rules
import Runtime
import Tree

/// The options that `dev` and `serve` share, as settings of the targets.
struct ServiceOptions {
    static let options =
        AuthenticationOptions.options + OriginOptions.options + TLSOptions.options + LimitOptions.options
        + [rulesOption, DatabaseLogins.option] + (settings + memorySettings + feedSettings).map(\.specification)
        + logOptions

    private static let rulesOption = OptionSpecification(
        "rules", "FILE", "file with security rules, in Firebase's format")

    private static let logOptions: [OptionSpecification] = [
        .init("log-format", "text|json", "the format of log lines; default text"),
        .init(
            "log-level", "LEVEL", "the least level of log lines: debug, info, notice, warning or error; default info"),
    ]

    var engine = EngineSettings()
    var gateway = GatewaySettings()
    var server = HTTPServerSettings()
    var connection = LogConnection.Settings()
    var mirrors = MirrorSettings()
    var feeds = FeedSettings()
    var follow = FollowTimes()
    var retention = RetentionSettings()
    var pages = Pages()
    /// Private addresses that webhooks may use.
    var webhookExceptions = AddressPolicy.Exceptions()
    /// The allowed addresses of NATS and Kafka servers.
    var sinkServers = AddressPolicy.Exceptions()
    /// The process's variables, some of which sinks may read.
    let environment: [String: String]
    let authentication: AuthenticationOptions
    var credentials: Gateway.Credentials
    let tls: TLSOptions?
    /// The origins of `--allow-origin`.
    let origins: [AllowedOrigin]
    /// Logins for databases other than the primary database.
    let databaseLogins: DatabaseLogins
    /// Whether the program migrates schemas to its version.
    var migrates = true
    /// Whether `--rules` was given.
    var hasRulesFile = false
    var shutdownMilliseconds: Milliseconds = 10_000
    let logger: Logger

    /// - Parameter logDescriptor: the descriptor of the log.
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
                "environment variables that match no option are ignored",
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

    /// Sets the server's settings that are derived from others.
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
        server.onLongStall = { [logger] loop, kind, nanoseconds, count in
            logger.longStall(of: loop, kind, nanoseconds, count)
        }
        server.errorBody = { _, text in ("application/json; charset=utf-8", ErrorReply.body(text)) }
    }
}

/// The option about web pages.
enum OriginOptions {
    static let options: [OptionSpecification] = [
        .init(
            "allow-origin", "ORIGIN[,…]",
            "origins of web pages that may use the gateway, such as http://app.test:3000, https://*.app.example or null; may be repeated; default: for dev those of this machine, for serve all"
        )
    ]

    static func read(_ arguments: ParsedArguments) throws -> [AllowedOrigin] {
        guard let text = arguments["allow-origin"], !text.isEmpty else { return [] }
        return try text.split(separator: ",", omittingEmptySubsequences: false).map { part in
            do throws(AllowedOrigin.Mistake) {
                return try AllowedOrigin(part.filter { $0 != " " })
            } catch {
                throw UsageError("--allow-origin: \(error.text).")
            }
        }
    }
}

/// Security rules from a file.
enum RulesFile {
    static func load(_ path: String) throws -> RulesVersion {
        let text = try Files.read(path)
        do throws(RulesError) {
            return RulesVersion(seq: 0, set: try RuleSet(json: text))
        } catch {
            throw CommandFailure("\(path) contains invalid rules:\n\(error)")
        }
    }
}

/// Environment variables with the prefix of options that match no option: options of an earlier version, and misspelled names.
enum UnreadVariables {
    private static let prefix = "PATHMIRROR_"
    /// The prefix of variables that feeds may name.
    private static let sinkPrefix = "PATHMIRROR_SINK_"
    /// Parts of the variables that Kubernetes sets for a service whose name begins with `pathmirror`.
    private static let serviceParts = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT_"]

    /// Returns the names, sorted. An option of any command counts, as several commands may share one environment.
    static func names(_ environment: Environment) -> [String] {
        let options = Commands.all.flatMap { $0.specification.options }
        let read = Set(options.map(\.environmentName)).union([Tuning.variable])
        return environment.all.filter { name, value in
            name.hasPrefix(prefix) && !read.contains(name) && !name.hasPrefix(sinkPrefix)
                && !serviceParts.contains { name.contains($0) } && !value.hasPrefix("tcp://")
        }.map(\.key).sorted()
    }
}

/// The body of the HTTP server's own error responses, in the same form as all others.
enum ErrorReply {
    static func body(_ text: String) -> [UInt8] {
        var writer = JSONWriter(form: .plain, pretty: true)
        writer.beginObject()
        writer.writeKey("error", isFirst: true)
        writer.writeString(text)
        writer.endObject()
        return writer.bytes + [0x0A]
    }
}

enum Processors {
    /// The number of cores that this process may use.
    static var count: Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }

    /// `host:process id`: identifies this process among those of all machines.
    static var hostAndProcess: String {
        var name = utsname()
        uname(&name)
        let host = withUnsafeBytes(of: &name.nodename) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        return "\(host):\(getpid())"
    }
}
