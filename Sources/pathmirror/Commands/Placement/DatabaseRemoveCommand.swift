import LogStore

/// Forgets a database in which no namespace lives any more.
struct DatabaseRemoveCommand: Command {
    static let specification = CommandSpecification(
        "database rm",
        "forgets a database in which no namespace lives any more; nothing in it is changed",
        positionals: ["NAME"], options: [.json] + DatabaseOptions.home)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = arguments.positionals[0]
        guard name != DatabaseRecord.home else { throw CommandFailure("The home can't be removed.") }
        let home = try Database.open(try Database.home(arguments), console, "database rm")
        defer { home.close() }
        guard try home.removeDatabase(name) else {
            guard try home.databases().contains(where: { $0.name == name }) else {
                throw Database.unknown(name, try home.databases())
            }
            let left = try home.namespaces(in: name)
            throw CommandFailure(
                "\(name) has namespaces, or they are on their way there or from there (\(left.prefix(5).joined(separator: ", "))\(left.count > 5 ? ", …" : "")): 'pathmirror database drain \(name) --move' moves them."
            )
        }
        console.write(
            arguments.has("json")
                ? JSONOutput.object(["name": .text(name), "removed": .bool(true)]).line
                : "\(name) is forgotten. Gateways that run keep their connections there until they are restarted; do that before its name, or the database, is added again."
        )
    }
}
