import Engine
import Gateway
import HTTPServer
import LogStore
import Postgres
import Runtime

/// A gateway for an existing PostgreSQL.
struct ServeCommand: Command {
    static let specification = CommandSpecification(
        "serve", "runs a gateway for a PostgreSQL database; without --rules it lets nobody in but administrators",
        options: [
            .init("database-url", "URL", "the PostgreSQL database (15 or newer), as libpq takes it"),
            .init("listen", "HOST:PORT", "where to listen; default 127.0.0.1:9000"),
            .init("ns", "NAME[,NAME…]", "namespaces to make if they are missing; the first is the default one"),
            .init("create-namespaces", nil, "makes every namespace that a request names"),
            .init("no-migrate", nil, "doesn't migrate the schema; refuses to start if it is not this program's"),
            .init("config", "FILE", "a file of 'name = value' lines for these options"),
        ] + ServiceOptions.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        var options = try ServiceOptions(arguments)
        guard let text = arguments["database-url"] else { throw UsageError("--database-url is missing.") }
        let url = try PostgresURL(text)
        options.server.addresses = [try address(arguments["listen"] ?? "127.0.0.1:9000")]
        options.engine.createsNamespaces = arguments.has("create-namespaces")
        let names = (arguments["ns"] ?? "default").split(separator: ",").map(String.init)
        options.gateway.defaultNamespace = names.first ?? "default"

        let session = try LogSession(url.withApplicationName("pathmirror start"), settings: options.session)
        if arguments.has("no-migrate") {
            try Migrations.check(session.connection)
        } else {
            for migration in try Migrations.up(session.connection) {
                options.logger.info("migrated", [("migration", migration.name)])
            }
        }
        for name in names { _ = try session.namespace(named: name, creating: true) }
        session.close()

        let service: Service
        do {
            service = try Service(options, url: url)
        } catch let error as HTTPServerError {
            throw CommandFailure("\(options.server.addresses[0]) can't be used: \(error).")
        }
        if !options.hasRulesFile {
            options.logger.notice("no --rules: in namespaces without rules nobody but administrators gets in")
        }
        for address in service.addresses { console.write("pathmirror: ready on http://\(address)") }
        Signals.waitForTermination { service.reload() }
        service.stop()
    }

    private static func address(_ text: String) throws -> ListenAddress {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]), colon > text.startIndex
        else { throw UsageError("--listen must be HOST:PORT, such as 0.0.0.0:9000 or [::]:9000.") }
        return ListenAddress(host: String(text[..<colon]), port: port)
    }
}
