import LogStore
import Postgres

/// Functions shared by the commands about namespaces.
enum NamespaceOptions {
    /// The namespace that the first argument names.
    static func name(_ arguments: ParsedArguments) throws -> String { try checked(arguments.positionals[0]) }

    /// The namespaces that `--ns` of a gateway lists, the default one first.
    static func listed(_ arguments: ParsedArguments) throws -> [String] {
        try (arguments["ns"] ?? "default").split(separator: ",").map { try checked(ConfigurationFile.trimmed($0)) }
    }

    /// - Returns: The name.
    /// - Throws: `UsageError` if no client could ask for a namespace of that name.
    static func checked(_ name: String) throws -> String {
        guard (1...64).contains(name.utf8.count),
            name.utf8.allSatisfy({
                (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D
                    || $0 == 0x5F
            })
        else { throw UsageError("\"\(name)\" is not a valid namespace name: use 1 to 64 letters, digits, - and _.") }
        return name
    }

    /// - Throws: if a namespace is being moved to another database.
    static func refuseMoving(_ name: String, _ primary: LogConnection) throws {
        guard let move = try primary.move(of: name) else { return }
        throw CommandFailure(
            "\(name) is being moved from \(move.source) to \(move.target): complete the move first ('pathmirror namespace move \(name)'), or --abort it."
        )
    }

    /// Opens a session on the database that holds a namespace. The caller closes the session on the primary database.
    static func database(
        _ record: DatabaseRecord?, _ primary: LogConnection, _ arguments: ParsedArguments, _ console: Console
    ) throws -> LogConnection {
        guard let record else { return primary }
        let url = try DatabaseLogins(arguments).url(of: record, primary: try DatabaseLocator.primary(arguments))
        return try DatabaseLocator.open(url, console, "namespace", of: record)
    }
}

/// Creates a namespace in a database.
struct NamespaceCreateCommand: Command {
    static let specification = CommandSpecification(
        "namespace create",
        "creates a namespace in the primary database or, with --in, in another one; does nothing if it exists",
        positionals: ["NS"], options: [.json] + DatabaseLocator.options)
    static let whenInterrupted = "The namespace may be placed already and not created; the same command resumes."

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = try NamespaceOptions.name(arguments)
        let primary = try DatabaseLocator.open(try DatabaseLocator.primary(arguments), console, "namespace create")
        defer { primary.close() }
        let placed = try primary.database(of: name)?.name
        let target = arguments["in"].map { $0 == DatabaseRecord.primary ? nil : $0 } ?? placed
        let record = try target.map { try DatabaseLocator.record($0, primary) }
        // Connects before recording the placement. Otherwise a failure would leave the namespace placed in a database that does not have
        // it.
        let database = try NamespaceOptions.database(record, primary, arguments, console)
        defer { if record != nil { database.close() } }
        // A concurrent removal waits, so that the namespace can't be left in a database where it is not placed.
        try primary.holdName(name)
        try NamespaceOptions.refuseMoving(name, primary)
        if record != nil { try primary.setPlacement(name, in: target) }
        let isThere = try database.namespace(named: name) != nil
        _ = try database.namespace(named: name, creating: true)
        let databaseName = target ?? DatabaseRecord.primary
        console.write(
            arguments.has("json")
                ? JSONOutput.object(["name": .text(name), "database": .text(databaseName), "isNew": .bool(!isThere)])
                    .line
                : text(name, databaseName, isThere: isThere, wasPlaced: placed == target))
    }
}

extension NamespaceCreateCommand {
    fileprivate static func text(_ name: String, _ databaseName: String, isThere: Bool, wasPlaced: Bool) -> String {
        guard isThere else { return "\(name) is in \(databaseName)." }
        return wasPlaced
            ? "\(name) is in \(databaseName) already."
            : "\(name) was in \(databaseName) already, and is served from there from now on."
    }
}

/// Lists namespaces.
struct NamespaceListCommand: Command {
    static let specification = CommandSpecification(
        "namespace ls", "lists the namespaces with their databases, and warns of databases that can't be reached",
        options: [.json] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let primary = try DatabaseLocator.open(try DatabaseLocator.primary(arguments), console, "namespace ls")
        defer { primary.close() }
        let wanted = arguments["in"]
        if let wanted, wanted != DatabaseRecord.primary { _ = try DatabaseLocator.record(wanted, primary) }
        let placements = try primary.placements(since: -1).filter { $0.database != nil }
        var found: [(name: String, database: String, head: Int64?)] = []
        if wanted ?? DatabaseRecord.primary == DatabaseRecord.primary {
            found = try primary.allNamespaces().map { ($0.name, DatabaseRecord.primary, $0.head) }
        }
        var failures: [String] = []
        var away: [String] = []
        for record in try primary.databases() where wanted == nil || wanted == record.name {
            let names = placements.filter { $0.database == record.name }.map(\.namespace)
            var heads: [String: Int64] = [:]
            do {
                try console.reporting("asking \(record.name)", isQuiet: arguments.has("json")) { _ in
                    let database = try NamespaceOptions.database(record, primary, arguments, console)
                    defer { database.close() }
                    for namespace in try database.allNamespaces() { heads[namespace.name] = namespace.head }
                }
            } catch {
                try console.interruption.check()
                if LogStoreError(error).isUnreachable, wanted == nil {
                    away.append(
                        "\(record.name) can't be reached, and the heads of its namespaces are unknown: \(error)")
                } else {
                    failures.append("\(record.name) (\(error))")
                }
            }
            found += names.map { ($0, record.name, heads[$0]) }
        }
        var table = TextTable(["NAMESPACE", "DATABASE", "HEAD"])
        for (name, database, head) in found.sorted(by: { $0.name < $1.name }) {
            guard arguments.has("json") else {
                table.add(name, database, head.map { "seq \($0)" } ?? "")
                continue
            }
            console.write(
                JSONOutput.object([
                    "name": .text(name), "database": .text(database), "head": head.map { .number($0) } ?? .null,
                ]).line)
        }
        table.write(to: console)
        for warning in away { console.error("pathmirror: warning: \(warning)") }
        if !failures.isEmpty {
            throw CommandFailure("Databases that can't be read: \(failures.joined(separator: "; ")).")
        }
    }
}

/// Shows a namespace.
struct NamespaceShowCommand: Command {
    static let specification = CommandSpecification(
        "namespace show", "shows a namespace's database, and its contents in numbers", positionals: ["NS"],
        options: [.json] + DatabaseOptions.primary)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = try NamespaceOptions.name(arguments)
        let primary = try DatabaseLocator.open(try DatabaseLocator.primary(arguments), console, "namespace show")
        defer { primary.close() }
        let record = try primary.database(of: name)
        let database = try NamespaceOptions.database(record, primary, arguments, console)
        defer { if record != nil { database.close() } }
        let shown = try console.reporting("\(name): counting", isQuiet: arguments.has("json")) { _ in
            // One consistent view, also while clients write.
            try database.inReadTransaction {
                try database.namespace(named: name).map { ($0, try database.facts(of: $0.id)) }
            }
        }
        guard let (namespace, facts) = shown else { throw try absence(of: name, record, primary, database) }
        let databaseName = record?.name ?? DatabaseRecord.primary
        guard arguments.has("json") else {
            console.write("\(name)  in \(databaseName)  seq \(namespace.head), log from \(namespace.retainedFrom)")
            return console.write(facts.text)
        }
        console.write(
            JSONOutput.object([
                "name": .text(name), "database": .text(databaseName), "head": .number(namespace.head),
                "retainedFrom": .number(namespace.retainedFrom), "rows": .number(facts.rows),
                "entries": .number(facts.entries), "snapshots": .number(facts.snapshots), "rules": .number(facts.rules),
                "sessions": .number(facts.sessions), "feeds": .list(facts.feeds.map { .text($0) }),
                "mirrors": .list(facts.mirrors.map { .text($0) }),
            ]).line)
    }

    /// The reason that the namespace is missing from its recorded database.
    private static func absence(
        of name: String, _ record: DatabaseRecord?, _ primary: LogConnection, _ database: LogConnection
    ) throws -> any Error {
        if let move = try primary.move(of: name) {
            return CommandFailure(
                "\"\(name)\" is being moved from \(move.source) to \(move.target): 'pathmirror namespace move \(name)' completes the move."
            )
        }
        guard let record else { return LogStoreError.unknownNamespace(name) }
        if let target = try database.formerlyMoved(name) {
            return CommandFailure(
                "\"\(name)\" has moved from \(record.name) to \(target), but the primary database has it in \(record.name): the primary database was restored from a backup. See docs/guides/placement.md for the next steps. Do not create another namespace of that name."
            )
        }
        return CommandFailure(
            "\"\(name)\" was placed in \(record.name), but not created there: 'pathmirror namespace create \(name) --in \(record.name)' creates it."
        )
    }
}

/// Removes a namespace.
struct NamespaceRemoveCommand: Command {
    static let specification = CommandSpecification(
        "namespace rm", "removes a namespace with its tree, log, rules and feeds, after its name was typed again",
        positionals: ["NS"],
        options: [
            .init("confirm", "NS", "the namespace's name again, instead of typing it"),
            .init("leftovers", nil, "drops only the remaining tables of a log that an earlier 'namespace rm' left"),
            .json,
        ]
            + DatabaseOptions.primary)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = try NamespaceOptions.name(arguments)
        let primary = try DatabaseLocator.open(try DatabaseLocator.primary(arguments), console, "namespace rm")
        defer { primary.close() }
        if arguments.has("leftovers") { return try removeLeftovers(of: name, primary, arguments, console) }
        try NamespaceOptions.refuseMoving(name, primary)
        let record = try primary.database(of: name)
        let database = try NamespaceOptions.database(record, primary, arguments, console)
        defer { if record != nil { database.close() } }
        let namespace = try database.namespace(named: name)
        let isQuiet = arguments.has("json")
        guard namespace != nil || record != nil else { throw LogStoreError.unknownNamespace(name) }
        let facts = try namespace.map { namespace throws in
            try console.reporting("\(name): counting its rows", isQuiet: isQuiet) { _ in
                try database.facts(of: namespace.id)
            }
        }
        if let namespace, let facts { try confirm(namespace, facts, arguments, console) }
        // Locks the name against concurrent creation and placement. Not held during the question to the operator.
        try primary.holdName(name)
        try NamespaceOptions.refuseMoving(name, primary)
        guard try primary.database(of: name)?.name == record?.name else {
            throw CommandFailure("\(name) was placed in another database meanwhile. Nothing was changed.")
        }
        // The namespace is removed from its database first. While it is placed there, none of that name can be created elsewhere.
        let isRemoved = try console.reporting(
            "\(name): removing \(Counted.text(facts?.rows ?? 0, "row"))", isQuiet: isQuiet,
            { _ in try namespace.map { try database.removeNamespace($0.id) } ?? false })
        do {
            if record != nil { try primary.setPlacement(name, in: nil) }
        } catch {
            throw console.ending(
                error,
                "\(name) is removed, and its name is still placed in \(record?.name ?? ""). The same command resumes.")
        }
        // A concurrent creation of that name need not wait for the cleanup.
        try primary.releaseName(name)
        do {
            _ = try removeLeftovers(of: name, in: database, isQuiet, console)
        } catch {
            throw console.ending(
                error,
                "\(name) is removed, except tables of its log, which another session reads. 'pathmirror namespace rm \(name) --leftovers' drops them."
            )
        }
        report(name, isRemoved: isRemoved, "\(name) was removed.", isQuiet, console)
    }

    /// - Parameter isJSON: whether to print JSON.
    private static func report(_ name: String, isRemoved: Bool, _ text: String, _ isJSON: Bool, _ console: Console) {
        console.write(
            isJSON ? JSONOutput.object(["name": .text(name), "removed": .bool(isRemoved)]).line : text)
    }

    /// Removes leftovers from all databases, because the placement no longer names the database.
    private static func removeLeftovers(
        of name: String, _ primary: LogConnection, _ arguments: ParsedArguments, _ console: Console
    ) throws {
        let isQuiet = arguments.has("json")
        var isRemoved = try removeLeftovers(of: name, in: primary, isQuiet, console)
        for record in try primary.databases() {
            do {
                let database = try NamespaceOptions.database(record, primary, arguments, console)
                defer { database.close() }
                if try removeLeftovers(of: name, in: database, isQuiet, console) { isRemoved = true }
            } catch {
                try console.interruption.check()
                guard LogStoreError(error).isUnreachable else { throw error }
                console.error(
                    "pathmirror: warning: \(record.name) can't be reached, so remaining tables of \(name) stay there: \(error)"
                )
            }
        }
        let text = isRemoved ? "Removed the remaining tables of \(name)." : "\(name) has no remaining tables."
        report(name, isRemoved: isRemoved, text, isQuiet, console)
    }

    private static func removeLeftovers(
        of name: String, in database: LogConnection, _ isQuiet: Bool, _ console: Console
    ) throws -> Bool {
        try console.reporting("\(name): removing tables of its log", isQuiet: isQuiet) { _ in
            try database.removeLeftovers(of: name)
        }
    }

    /// - Throws: if the namespace must not be removed.
    private static func confirm(
        _ namespace: NamespaceRecord, _ facts: NamespaceFacts, _ arguments: ParsedArguments, _ console: Console
    ) throws {
        guard facts.mirrors.isEmpty else {
            throw CommandFailure(
                "\(namespace.name) has mirrors (\(facts.mirrors.joined(separator: ", "))), whose tables would stay: drop them first, with 'pathmirror mirror drop'."
            )
        }
        console.error("This permanently deletes namespace \(namespace.name): \(facts.text)")
        let given = arguments["confirm"] ?? console.answer("Type its name to delete it: ")
        guard given == namespace.name else {
            throw CommandFailure(
                "Nothing was changed. Add --confirm \(namespace.name) to remove the namespace without being asked.")
        }
    }
}

extension NamespaceFacts {
    /// The text for people.
    var text: String {
        "\(Counted.text(rows, "row")), \(Counted.text(entries, "entry")) of the log, \(Counted.text(snapshots, "snapshot")), "
            + "\(Counted.text(rules, "version")) of rules, \(Counted.text(sessions, "session")) with onDisconnect operations, feeds: \(feeds.isEmpty ? "none" : feeds.joined(separator: ", ")), "
            + "mirrors: \(mirrors.isEmpty ? "none" : mirrors.joined(separator: ", "))"
    }
}
