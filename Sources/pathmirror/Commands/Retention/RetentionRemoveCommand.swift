import LogStore

/// Takes back what was said of logs.
struct RetentionRemoveCommand: Command {
    static let specification = CommandSpecification(
        "retention rm", "takes back what was said: the log then stays, or what is said for all holds",
        options: [RetentionOptions.namespace, RetentionOptions.all] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try Database.connection(arguments, console, "retention rm", of: .namespaceIfGiven)
        defer { connection.close() }
        let namespace = try RetentionOptions.subject(arguments, connection)
        guard try connection.removeRetention(of: namespace?.id) else {
            throw CommandFailure("Nothing was said of \(namespace.map { "the log of \($0.name)" } ?? "all logs").")
        }
        console.write("Taken back.")
    }
}
