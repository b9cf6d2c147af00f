import Mirrors

struct MirrorDropCommand: Command {
    static let specification = CommandSpecification(
        "mirror drop", "removes a mirror and its table", positionals: ["NAME"],
        options: [MirrorOptions.namespace, .init("yes", nil, "doesn't ask")] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(arguments, console)
        defer { administration.close() }
        let mirror = try MirrorOptions.mirror(arguments, administration)
        let loss = mirror.definition.keeps == nil ? "" : " What it keeps of the past is lost."
        guard
            arguments.has("yes")
                || console.confirms("Drop \(mirror.name) with its table \(mirror.definition.tableName)?\(loss)")
        else { throw CommandFailure("Nothing was changed. Give --yes to drop without being asked.") }
        try console.telling("\(mirror.name): dropping \(mirror.definition.tableName)", isQuiet: false) { _ in
            try administration.drop(mirror)
        }
    }
}
