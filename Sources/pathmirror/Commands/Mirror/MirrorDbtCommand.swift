import Mirrors

/// Writes what a dbt project has to know of the mirrors' tables.
struct MirrorDbtCommand: Command {
    static let specification = CommandSpecification(
        "mirror dbt", "writes the mirrors as sources of a dbt project", positionals: ["[NAME…]"],
        options: [
            MirrorOptions.namespace, OutputFile.option,
        ] + Database.options,
        notes: [
            "Without a NAME: all mirrors of the namespace that are in the gateway's database. Those in another one have to be named.",
            "The file has tables, columns, types, descriptions, tests of keys, and freshness as how far a mirror is behind.",
        ])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(arguments, console)
        defer { administration.close() }
        let namespace = arguments["ns"] ?? "default"
        let mirrors: [CatalogMirror]
        if arguments.positionals.isEmpty {
            mirrors = try administration.mirrors().filter { $0.namespace == namespace && $0.target == nil }
            guard !mirrors.isEmpty else {
                throw CommandFailure("The namespace \"\(namespace)\" has no mirror in the gateway's database.")
            }
        } else {
            mirrors = try arguments.positionals.map { try administration.mirror(named: $0, of: namespace) }
            if let other = mirrors.first(where: { $0.target != mirrors[0].target }) {
                throw CommandFailure(
                    "Mirror \"\(other.name)\" is in another database than \"\(mirrors[0].name)\": write a file for each."
                )
            }
        }
        let output = try OutputFile(arguments["output"], standardOutput: console.output)
        try output.write(Array(DbtSources(mirrors).yaml.utf8))
        try output.finish()
    }
}
