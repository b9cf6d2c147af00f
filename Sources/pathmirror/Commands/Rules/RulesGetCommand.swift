import LogStore
import Rules

struct RulesGetCommand: Command {
    static let specification = CommandSpecification(
        "rules get", "writes the security rules that hold, with their comments",
        options: [
            RulesText.namespace, .init("seq", "SEQ", "the rules that this entry brought (see 'rules history')"),
            .init("strict", nil, "without comments: plain JSON"), OutputFile.option,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try Database.connection(arguments, console, "rules")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection)
        let seq = try arguments.integer("seq", in: 1...Int(Int64.max)).map(Int64.init)
        let stored = try seq.map { try connection.rules(namespace.id, at: $0) } ?? connection.currentRules(namespace.id)
        guard let stored else {
            throw CommandFailure(
                seq.map { "Entry \($0) of \"\(namespace.name)\" brought no rules." }
                    ?? "\"\(namespace.name)\" has no rules of its own; its gateways use what they were started with.")
        }
        let text = arguments.has("strict") ? try RuleSet(json: stored.source).strictSource : stored.source
        let output = try OutputFile(arguments["output"], standardOutput: console.output)
        try output.write(text.last == 0x0A ? text : text + [0x0A])
        try output.finish()
    }
}
