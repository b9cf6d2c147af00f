import LogStore
import Rules

struct RulesSetCommand: Command {
    static let specification = CommandSpecification(
        "rules set", "checks rules and makes them hold, on all gateways from one entry of the log on",
        positionals: ["FILE|-"],
        options: [
            RulesText.namespace, .init("dry-run", nil, "checks and changes nothing"), .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let file = arguments.positionals[0]
        let text = try Files.read(file, standardInput: console.input)
        let rules = try RulesText.compile(text, file, console)
        if arguments.has("dry-run") {
            return console.write(arguments.has("json") ? "{\"seq\":null}" : "\(file) is valid")
        }
        let connection = try Database.connection(arguments, console, "rules")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection, creating: true)
        let seq = try connection.setRules(namespace.id, source: text, origin: RulesText.origin)
        if arguments.has("json") {
            return console.write(
                JSONOutput.object(["seq": .number(seq), "warnings": RulesText.json(rules.warnings)]).line)
        }
        console.write("The rules of \"\(namespace.name)\" hold from seq \(seq) on.")
    }
}
