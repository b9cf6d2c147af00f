import Engine
import Gateway
import HTTPClient
import HTTPServer
import LogStore
import PostgresCluster
import Rules
import Runtime

/// Everything on one machine for a developer: a private PostgreSQL, and a gateway that trusts this machine.
struct DevCommand: Command {
    static let waitsForSignals = true
    static let specification = CommandSpecification(
        "dev", "runs a gateway with a PostgreSQL of its own, for development on this machine",
        options: [
            .init("port", "N", "the port on 127.0.0.1 and ::1; default 9000, 0 for any free one of 127.0.0.1"),
            .init("data", "DIR", "the data directory; default .pathmirror"),
            .init("ns", "NAME", "the namespace of requests that name none; default \"default\""),
            .init("import", "FILE", "a JSON export to load into the namespace before serving"),
            .init("config", "FILE", "a file of 'name = value' lines for these options"),
        ] + DevFollowing.options + [DevFunctions.option] + ServiceOptions.options,
        firstOptions: [
            .init(title: "Data", names: ["data", "ns", "import", "follow", "credentials"]),
            .init(title: "Access", names: ["rules"]),
            .init(title: "Network", names: ["port", DevFunctions.option.name]),
            .init(title: "Operation", names: ["config"]),
        ])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        var options = try ServiceOptions(arguments, logDescriptor: console.errors)
        let port = try arguments.integer("port", in: 0...65_535) ?? 9_000
        let namespace = try NamespaceOptions.checked(arguments["ns"] ?? "default")
        options.gateway.defaultNamespace = namespace
        let following = try DevFollowing(arguments, namespace)
        trustThisMachine(&options, arguments, port)
        let functions = try DevFunctions(arguments)
        options.gateway.functionRegistry = functions
        let denials = DenialNotices()
        options.gateway.onDenial = { denials.note($0) }
        let logger = options.logger
        // Creating a cluster takes seconds, and the cluster is kept. So the addresses are checked first.
        try whileListening(at: port) { try options.server.checkAddresses() }

        var settings = ClusterSettings(dataDirectory: arguments["data"] ?? ".pathmirror")
        settings.progress = { logger.info($0) }
        var cluster = try PostgresCluster.start(settings)
        defer {
            cluster.stop()
            logger.notice("PostgreSQL stopped")
        }
        let connection = try LogConnection(cluster.url)
        let done = try connection.migrate()
        for migration in done.migrations {
            logger.info("migrated", [("migration", migration.name)])
        }
        if !done.functionFiles.isEmpty {
            logger.info("functions applied", [("files", done.functionFiles.joined(separator: " "))])
        }
        if let file = arguments["import"] { try ImportCommand.load(file, into: namespace, connection, console) }
        try following?.begin(connection, console)
        let followed = try connection.follow(namespace)
        let placement = PlacementMap()
        try placement.look(connection, isNew: true)
        if placement.database(of: namespace) == nil { _ = try connection.namespace(named: namespace, creating: true) }
        connection.close()

        let service = try whileListening(at: port) { try Service(options, url: cluster.url, placement: placement) }
        defer { service.stop() }
        greet(service, options, console)
        let address = service.addresses.first?.description ?? ""
        console.write(followed.map { DevFollowing.greeting($0, address, arguments) } ?? firstRequests(address))
        console.write("\n  \(cluster.psqlCommand)")
        var functionFeeds = DevFunctionFeeds(functions, logger)
        while !console.signals.isTerminationWanted(milliseconds: 200) {
            denials.log(cluster.url, arguments, logger)
            functionFeeds.apply(cluster.url)
            guard !cluster.isRunning else { continue }
            logger.error("PostgreSQL ended unexpectedly; starting it again", [("log", cluster.logPath)])
            // Also unlocks the data directory. The new server has the old one's address.
            cluster.stop(.immediate)
            cluster = try PostgresCluster.start(settings)
        }
    }

    /// Prints the gateway's addresses.
    private static func greet(_ service: Service, _ options: ServiceOptions, _ console: Console) {
        console.write("pathmirror: ready on http://\(service.addresses.first?.description ?? "")")
        for address in service.tlsAddresses { console.write("pathmirror: ready on https://\(address)") }
        if !options.hasRulesFile, service.tlsAddresses.contains(where: { IPAddress($0.host)?.isLoopback == false }) {
            options.logger.notice(
                "remote clients can only access namespaces that have their own rules, or authenticate as administrators"
            )
        }
    }

    private static func firstRequests(_ address: String) -> String {
        """

          curl -X PUT -d '{"name":"Ada"}' http://\(address)/users/1.json
          curl http://\(address)/users.json
          curl -N -H 'Accept: text/event-stream' http://\(address)/users.json
        """
    }

    private static func trustThisMachine(_ options: inout ServiceOptions, _ arguments: ParsedArguments, _ port: Int) {
        options.server.addresses = ListenAddress.localhost(port: UInt16(port))
        options.gateway.pages = .thisMachine(and: options.origins)
        options.engine.createsNamespaces = true
        options.credentials.acceptsOwner = true
        options.credentials.acceptsUnsignedTokens = true
        // Developers run the servers of webhooks and sinks on this machine.
        if arguments["webhook-allow"] == nil { options.webhookExceptions = .thisMachine }
        if arguments["sink-allow"] == nil { options.sinkServers = .thisMachine }
        guard !options.hasRulesFile else { return }
        options.engine.defaultRules = RulesVersion(seq: 0, set: .allowThisMachine, enforcesIndexes: false)
    }

    /// Names the option to change if the port can't be used.
    private static func whileListening<Result>(at port: Int, _ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as HTTPServerError {
            throw CommandFailure("Port \(port) of this machine can't be used: \(error). Try another --port.")
        }
    }
}
