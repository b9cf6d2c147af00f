import LogStore
import Postgres

/// Adds a database that can hold namespaces.
struct DatabaseAddCommand: Command {
    static let specification = CommandSpecification(
        "database add",
        "registers another database for namespaces, and migrates its schema to this program's version; or registers its new address",
        positionals: ["NAME", "URL"], options: [.json] + DatabaseOptions.primary)
    static let whenInterrupted =
        "Part of the schema may exist already, which is harmless; the same command resumes."

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let (name, text) = (arguments.positionals[0], arguments.positionals[1])
        guard isName(name) else {
            throw UsageError(
                "a database's name has up to 63 of a to z, 0 to 9, - and _, and \"\(DatabaseRecord.primary)\" is reserved."
            )
        }
        let url = try PostgresURL(text)
        guard let host = url.host, let databaseName = url.databaseName else {
            throw UsageError("the URL must name the host and the database.")
        }
        let primaryURL = try DatabaseLocator.primary(arguments)
        let primary = try DatabaseLocator.open(primaryURL, console, "database add")
        defer { primary.close() }
        let location = primaryURL.at(host: host, port: url.port, database: databaseName)
        let login = try DatabaseLogins(arguments).login(for: name)
        // The login given here may differ from that of the gateways.
        let added = try LogConnection(
            (login.map { location.with($0) } ?? location).with(url).withApplicationName("pathmirror add"))
        defer { added.close() }
        console.interruption.stops(added.cancelHandle)
        _ = try console.reporting("\(name): migrating", isQuiet: arguments.has("json")) { line in
            try added.migrate { line.note("\(name): migration \($0)") }
        }
        let record = DatabaseRecord(
            name: name, host: host, port: url.port, databaseName: databaseName, installation: try added.installation())
        guard try primary.installation() != record.installation else {
            throw CommandFailure("That is the primary database, or a copy of it: its namespaces would exist twice.")
        }
        if let known = try primary.databases().first(where: { $0.name == name }), known.address != record.address,
            known.installation == record.installation
        {
            try MovedDatabase.check(known, at: try DatabaseLogins(arguments).url(of: known, primary: primaryURL), added)
        }
        try primary.addDatabase(record)
        console.write(
            arguments.has("json")
                ? JSONOutput.object(["name": .text(name), "address": .text(record.address)]).line
                : "\(name) is at \(record.address). Gateways log in there as in the primary database, or by --database-credentials."
        )
    }

    private static func isName(_ name: String) -> Bool {
        name != DatabaseRecord.primary && (1...63).contains(name.utf8.count) && name.first != "-" && name.first != "_"
            && name.utf8.allSatisfy {
                (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D || $0 == 0x5F
            }
    }
}

/// Lists the databases.
struct DatabaseListCommand: Command {
    static let specification = CommandSpecification(
        "database ls", "lists the databases, with the number of namespaces in each; exits 1 if one can't be reached",
        options: [.json] + DatabaseOptions.primary)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let primaryURL = try DatabaseLocator.primary(arguments)
        let primary = try DatabaseLocator.open(primaryURL, console, "database ls")
        defer { primary.close() }
        var counts: [String: Int64] = [:]
        for (_, database) in try primary.placements(since: -1) { if let database { counts[database, default: 0] += 1 } }
        let isJSON = arguments.has("json")
        let own = Int64(try primary.allNamespaces().count)
        var table = TextTable(["NAME", "ADDRESS", "NAMESPACES", "STATE", "NOTE"], numbers: [2])
        table.add(DatabaseRecord.primary, "\(primaryURL)", "\(own)", "open", "")
        if isJSON { console.write(line(DatabaseRecord.primary, "\(primaryURL)", own, "open", nil)) }
        var away: [String] = []
        for record in try primary.databases() {
            var reason: String?
            do {
                let url = try DatabaseLogins(arguments).url(of: record, primary: primaryURL)
                try console.reporting("asking \(record.name)", isQuiet: isJSON) { _ in
                    try DatabaseLocator.open(url, console, "database ls", of: record).close()
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

/// Options of commands that use the primary database.
enum DatabaseOptions {
    static let primary = DatabaseLocator.options.filter { $0.name != "in" }
}

/// Excludes a database from new namespaces, and moves its namespaces away.
struct DatabaseDrainCommand: Command {
    static let specification = CommandSpecification(
        "database drain", "assigns no new namespaces to a database; its present ones stay, or move",
        positionals: ["NAME"],
        options: [
            .init("undo", nil, "allows new namespaces in the database again"),
            .init(
                "move", nil, "moves the database's namespaces away, one after another; resumes after an interruption"),
            .init("to", "DB", "the target of --move; default home, the primary database"), .json,
        ] + DatabaseOptions.primary)
    static let whenInterrupted = "Namespaces that have moved are in their new database; the same command resumes."

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = arguments.positionals[0]
        let isDraining = !arguments.has("undo")
        guard isDraining || !arguments.has("move") else { throw UsageError("Give either --undo or --move.") }
        guard arguments["to"] == nil || arguments.has("move") else { throw UsageError("--to needs --move.") }
        let primaryURL = try DatabaseLocator.primary(arguments)
        let primary = try DatabaseLocator.open(primaryURL, console, "database drain")
        defer { primary.close() }
        guard name != DatabaseRecord.primary else {
            throw CommandFailure(
                "The primary database can't be drained: namespaces without a placement are created there.")
        }
        let target = arguments["to"] ?? DatabaseRecord.primary
        guard target != name else { throw UsageError("--to names the database that is being drained.") }
        if target != DatabaseRecord.primary, try DatabaseLocator.record(target, primary).isDraining {
            throw CommandFailure("\(target) accepts no new namespaces either: name another one with --to.")
        }
        guard try primary.drainDatabase(name, isDraining) else {
            throw DatabaseLocator.unknown(name, try primary.databases())
        }
        if !arguments.has("json") {
            console.write(isDraining ? "\(name) accepts no new namespaces." : "\(name) accepts new namespaces.")
        } else if !arguments.has("move") {
            console.write(
                JSONOutput.object(["name": .text(name), "state": .text(isDraining ? "draining" : "open")]).line)
        }
        guard arguments.has("move") else { return }
        try moveAll(
            from: name, to: target, NamespaceMoving(arguments, console, primary, primaryURL), primary, arguments,
            console)
    }

    /// Moves all namespaces, and reports the failures at the end.
    private static func moveAll(
        from name: String, to target: String, _ moving: NamespaceMoving, _ primary: LogConnection,
        _ arguments: ParsedArguments, _ console: Console
    ) throws {
        var left: [String] = []
        for namespace in try primary.namespaces(in: name) {
            try console.interruption.check()
            do {
                let interrupted = try primary.move(of: namespace)?.target
                var moved = try moving.move(namespace, to: interrupted ?? target)
                // A namespace that was being moved to this database completes that move first.
                if interrupted == name { moved = try moving.move(namespace, to: target) }
                console.write(arguments.has("json") ? moved.json(namespace) : moved.text(namespace))
            } catch {
                try console.interruption.check()
                console.error("\(namespace): \(error)")
                left.append(namespace)
            }
        }
        guard left.isEmpty else {
            throw CommandFailure("Not moved: \(left.joined(separator: ", ")). The same command tries them again.")
        }
    }
}

/// Removes a database that holds no namespace from the list.
struct DatabaseRemoveCommand: Command {
    static let specification = CommandSpecification(
        "database rm",
        "removes a database without namespaces from the list; nothing in it is changed",
        positionals: ["NAME"], options: [.json] + DatabaseOptions.primary)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = arguments.positionals[0]
        guard name != DatabaseRecord.primary else { throw CommandFailure("The primary database can't be removed.") }
        let primary = try DatabaseLocator.open(try DatabaseLocator.primary(arguments), console, "database rm")
        defer { primary.close() }
        guard try primary.removeDatabase(name) else {
            guard try primary.databases().contains(where: { $0.name == name }) else {
                throw DatabaseLocator.unknown(name, try primary.databases())
            }
            let left = try primary.namespaces(in: name)
            throw CommandFailure(
                "\(name) has namespaces, or a move to or from it is unfinished (\(left.prefix(5).joined(separator: ", "))\(left.count > 5 ? ", …" : "")): 'pathmirror database drain \(name) --move' moves them."
            )
        }
        console.write(
            arguments.has("json")
                ? JSONOutput.object(["name": .text(name), "removed": .bool(true)]).line
                : "\(name) is forgotten. Running gateways keep their connections there: restart them before you add its name, or the database, again."
        )
    }
}

/// Checks a changed address. Running gateways use the old address until they are restarted, and new ones begin with the new one. So the
/// old address must not accept writes any more, unless it leads to the same database.
enum MovedDatabase {
    private static let connectMilliseconds: Int64 = 3_000

    /// - Parameters:
    ///   - known: the database as recorded in the primary database.
    ///   - old: the URL of the old address.
    ///   - new: a session at the new address.
    /// - Throws: if the old address still has the database, and the new one has another copy of it.
    static func check(_ known: DatabaseRecord, at old: PostgresURL, _ new: LogConnection) throws {
        var settings = LogConnection.Settings()
        settings.connection.connectTimeoutMilliseconds = connectMilliseconds
        let there: LogConnection
        do {
            there = try LogConnection(old.withApplicationName("pathmirror add"), settings: settings)
        } catch {
            // No database there accepts writes, as far as this machine can see.
            return
        }
        defer { there.close() }
        guard (try? there.installation()) == known.installation, try !new.isSameDatabase(as: there) else { return }
        throw CommandFailure(
            "\(known.name) still accepts writes at \(known.address), and running gateways use that address: the namespaces would be in two databases. Stop the old server first, or rename the old database, and add it again then."
        )
    }
}
