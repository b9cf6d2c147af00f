import LogStore

struct RulesRollbackCommand: Command {
    static let specification = CommandSpecification(
        "rules rollback", "makes earlier rules hold again, by a new entry",
        positionals: ["[SEQ]"], options: [RulesText.namespace, .json] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try Database.connection(arguments, console, "rules")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection)
        let earlier = try earlier(arguments.positionals.first, namespace, connection)
        // What was valid for an older program may not be for this one.
        _ = try RulesText.compile(earlier.source, "seq \(earlier.seq)", console)
        let seq = try connection.setRules(namespace.id, source: earlier.source, origin: RulesText.origin)
        if arguments.has("json") {
            return console.write("{\"seq\":\(seq),\"from\":\(earlier.seq)}")
        }
        console.write("The rules of \"\(namespace.name)\" from seq \(earlier.seq) hold again, from seq \(seq) on.")
    }

    private static func earlier(
        _ argument: String?, _ namespace: NamespaceRecord, _ connection: LogConnection
    ) throws -> StoredRules {
        if let argument {
            guard let seq = Int64(argument) else {
                throw UsageError("SEQ must be a whole number: see 'rules history'.")
            }
            guard let stored = try connection.rules(namespace.id, at: seq) else {
                throw CommandFailure("Entry \(seq) of \"\(namespace.name)\" brought no rules: see 'rules history'.")
            }
            return stored
        }
        let history = try connection.rulesHistory(namespace.id)
        guard history.count > 1 else { throw CommandFailure("\"\(namespace.name)\" has had no other rules.") }
        return history[history.count - 2]
    }
}
