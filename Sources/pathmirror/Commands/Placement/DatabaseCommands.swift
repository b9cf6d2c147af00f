import LogStore
import Postgres

/// Adds a database in which namespaces can live.
struct DatabaseAddCommand: Command {
    static let specification = CommandSpecification(
        "database add",
        "lets namespaces live in another database, and brings its schema to this program's version; again: says where it is now",
        positionals: ["NAME", "URL"], options: [.json] + DatabaseOptions.home)
    static let whenInterrupted =
        "The database's schema may be partly there already, which does no harm; the same command goes on."

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let (name, text) = (arguments.positionals[0], arguments.positionals[1])
        guard isName(name) else {
            throw UsageError(
                "a database's name has up to 63 of a to z, 0 to 9, - and _, and \"\(DatabaseRecord.home)\" is taken.")
        }
        let url = try PostgresURL(text)
        guard let host = url.host, let databaseName = url.databaseName else {
            throw UsageError("the URL must name the host and the database.")
        }
        let homeURL = try Database.home(arguments)
        let home = try Database.open(homeURL, console, "database add")
        defer { home.close() }
        let place = homeURL.at(host: host, port: url.port, database: databaseName)
        let login = try DatabaseLogins(arguments).login(for: name)
        // Whoever gives a login here may be another one than gateways are.
        let added = try LogConnection(
            (login.map { place.with($0) } ?? place).with(url).withApplicationName("pathmirror add"))
        defer { added.close() }
        console.interruption.stops(added.cancelHandle)
        _ = try console.telling("\(name): migrating", isQuiet: arguments.has("json")) { line in
            try added.migrate { line.note("\(name): migration \($0)") }
        }
        let record = DatabaseRecord(
            name: name, host: host, port: url.port, databaseName: databaseName, installation: try added.installation())
        guard try home.installation() != record.installation else {
            throw CommandFailure("That is the home itself, or was copied from it: its namespaces would be there twice.")
        }
        if let known = try home.databases().first(where: { $0.name == name }), known.address != record.address,
            known.installation == record.installation
        {
            try MovedDatabase.check(known, at: try DatabaseLogins(arguments).url(of: known, home: homeURL), added)
        }
        try home.addDatabase(record)
        console.write(
            arguments.has("json")
                ? JSONOutput.object(["name": .text(name), "address": .text(record.address)]).line
                : "\(name) is at \(record.address). Gateways log in there as in the home, or as --database-credentials says."
        )
    }

    private static func isName(_ name: String) -> Bool {
        name != DatabaseRecord.home && (1...63).contains(name.utf8.count) && name.first != "-" && name.first != "_"
            && name.utf8.allSatisfy {
                (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D || $0 == 0x5F
            }
    }
}

/// Lists the databases.
struct DatabaseListCommand: Command {
    static let specification = CommandSpecification(
        "database ls", "lists the databases, with how many namespaces live in each; exits 1 if one can't be reached",
        options: [.json] + DatabaseOptions.home)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let homeURL = try Database.home(arguments)
        let home = try Database.open(homeURL, console, "database ls")
        defer { home.close() }
        var counts: [String: Int64] = [:]
        for (_, database) in try home.placements(since: -1) { if let database { counts[database, default: 0] += 1 } }
        let isJSON = arguments.has("json")
        let own = Int64(try home.allNamespaces().count)
        var table = TextTable(["NAME", "ADDRESS", "NAMESPACES", "STATE", "NOTE"], numbers: [2])
        table.add(DatabaseRecord.home, "\(homeURL)", "\(own)", "open", "")
        if isJSON { console.write(line(DatabaseRecord.home, "\(homeURL)", own, "open", nil)) }
        var away: [String] = []
        for record in try home.databases() {
            var reason: String?
            do {
                let url = try DatabaseLogins(arguments).url(of: record, home: homeURL)
                try console.telling("asking \(record.name)", isQuiet: isJSON) { _ in
                    try Database.open(url, console, "database ls", of: record).close()
                }
            } catch {
                reason = "\(error)"
                away.append(record.name)
            }
            let state = record.isDraining ? "draining" : "open"
            let count = counts[record.name, default: 0]
            if isJSON { console.write(line(record.name, record.address, count, state, reason)) }
            table.add(
                record.name, record.address, "\(count)", state, reason.map { "can't be used: \($0)" } ?? "")
        }
        if !isJSON { table.write(to: console) }
        if !away.isEmpty { throw CommandFailure("Databases that can't be used: \(away.joined(separator: ", ")).") }
    }

    private static func line(
        _ name: String, _ address: String, _ namespaces: Int64, _ state: String, _ reason: String?
    ) -> String {
        JSONOutput.object([
            "name": .text(name), "address": .text(address), "namespaces": .number(namespaces), "state": .text(state),
            "message": JSONOutput(reason),
        ]).line
    }
}

/// Options of commands that ask the home.
enum DatabaseOptions {
    static let home = Database.options.filter { $0.name != "in" }
}
