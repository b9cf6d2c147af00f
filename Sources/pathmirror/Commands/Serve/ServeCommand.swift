import Engine
import Gateway
import HTTPServer
import LogStore
import Postgres
import Runtime

/// A gateway for an existing PostgreSQL.
struct ServeCommand: Command {
    static let waitsForSignals = true
    static let specification = CommandSpecification(
        "serve", "runs a gateway for a PostgreSQL database; without --rules only administrators have access",
        options: [
            .init("database-url", "URL", "the PostgreSQL database (15 or newer), as a libpq URL or connection string"),
            DatabaseLocator.fileOption,
            .init(
                "listen", "HOST:PORT",
                "the address for plain HTTP; default 127.0.0.1:9000, and with --tls-certificate none"),
            .init("ns", "NAME[,NAME…]", "namespaces to create if missing; the first is the default one"),
            .init("create-namespaces", nil, "creates every namespace that a request names"),
            .init("no-migrate", nil, "doesn't migrate the schema; refuses to start if it has another version"),
            .init("config", "FILE", "a file of 'name = value' lines for these options"),
        ] + ServiceOptions.options,
        firstOptions: [
            .init(title: "Data", names: ["database-url", "ns"]),
            .init(title: "Access", names: ["rules", "admin-secret-file", "project-id"]),
            .init(title: "Network", names: ["listen", "tls-certificate", "tls-key", "tls-listen", "trusted-proxies"]),
            .init(title: "Operation", names: ["metrics-from", "config"]),
        ])

    /// The addresses for plain HTTP. With a certificate there are none unless `--listen` names them.
    static func addresses(_ arguments: ParsedArguments, _ options: ServiceOptions) throws -> [ListenAddress] {
        let plain = arguments["listen"] ?? (options.tls == nil ? "127.0.0.1:9000" : nil)
        return try plain.map { try ListenOption.addresses($0, "listen") } ?? []
    }

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        var options = try ServiceOptions(arguments, logDescriptor: console.errors)
        guard let url = try DatabaseLocator.givenURL(arguments) else {
            throw UsageError("--database-url is missing (or --database-url-file).")
        }
        if let warning = DatabaseWarning.ofCommandLine(arguments) { options.logger.warning(warning) }
        DatabaseWarning.log(url, options.logger)
        options.server.addresses = try addresses(arguments, options)
        // Without the option, requests from web pages are accepted if their credentials are.
        if !options.origins.isEmpty { options.gateway.pages = .only(options.origins) }
        if let tls = options.tls { options.gateway.strictTransportSeconds = tls.strictTransportSeconds ?? 31_536_000 }
        options.engine.createsNamespaces = arguments.has("create-namespaces")
        let names = try NamespaceOptions.listed(arguments)
        options.gateway.defaultNamespace = names.first ?? "default"

        let connection = try LogConnection(url.withApplicationName("pathmirror start"), settings: options.connection)
        if arguments.has("no-migrate") {
            try connection.checkSchema()
        } else {
            let done = try connection.migrate()
            for migration in done.migrations {
                options.logger.info("migrated", [("migration", migration.name)])
            }
            if !done.functionFiles.isEmpty {
                options.logger.info("functions applied", [("files", done.functionFiles.joined(separator: " "))])
            }
        }
        let placement = PlacementMap()
        try placement.look(connection, isNew: true)
        for name in names where placement.database(of: name) == nil {
            _ = try connection.namespace(named: name, creating: true)
        }
        connection.close()
        options.migrates = !arguments.has("no-migrate")

        let service: Service
        do {
            service = try Service(options, url: url, placement: placement)
        } catch let error as HTTPServerError {
            throw CommandFailure("\(error).")
        }
        if !options.hasRulesFile {
            options.logger.notice("no --rules file: namespaces without uploaded rules reject all non-admin requests")
        }
        for address in service.addresses { console.write("pathmirror: ready on http://\(address)") }
        for address in service.tlsAddresses { console.write("pathmirror: ready on https://\(address)") }
        console.signals.waitForTermination { service.reload() }
        service.stop()
    }
}
