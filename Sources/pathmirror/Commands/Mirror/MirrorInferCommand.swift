import LogStore
import Mirrors
import Runtime
import Tree

struct MirrorInferCommand: Command {
    static let specification = CommandSpecification(
        "mirror infer", "reads records and proposes a definition, with counts of what would not fit",
        positionals: ["PATH"],
        options: [
            MirrorOptions.namespace, .init("limit", "N", "the most records to look at; default 100000"), OutputFile.option,
            .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try Database.connection(arguments, console, "mirror infer")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection)
        let path = arguments.positionals[0]
        let inference = try Inference.run(
            connection, namespace, pattern: path.hasPrefix("/") ? path : "/\(path)",
            limit: try arguments.integer("limit", in: 1...1_000_000_000) ?? 100_000)
        let definition = String(decoding: inference.definition.encoded(pretty: true), as: UTF8.self)
        let output = try OutputFile(arguments["output"], standardOutput: console.output)
        guard !arguments.has("json") else {
            try output.write(Array("\(json(inference))\n".utf8))
            return try output.finish()
        }
        console.error("\(inference.recordCount) records at \(inference.definition.pattern)")
        for evidence in inference.evidence {
            let misfits = evidence.misfits > 0 ? ", \(evidence.misfits) would not fit" : ""
            console.error(
                "  \(evidence.column)  \(evidence.type.rawValue)  from \(evidence.path): in \(evidence.present) records\(misfits)"
            )
        }
        if inference.placesLeftOut > 0 {
            console.error("  \(inference.placesLeftOut) more places, which the rest takes")
        }
        try output.write(Array("\(definition)\n".utf8))
        try output.finish()
    }

    private static func json(_ inference: Inference) -> String {
        JSONOutput.object([
            "records": .number(Int64(inference.recordCount)), "definition": .raw(inference.definition.json),
            "evidence": .list(
                inference.evidence.map { evidence in
                    .object([
                        "column": .text(evidence.column), "type": .text(evidence.type.rawValue),
                        "path": .text(evidence.path), "present": .number(Int64(evidence.present)),
                        "misfits": .number(Int64(evidence.misfits)),
                    ])
                }), "placesLeftOut": .number(Int64(inference.placesLeftOut)),
        ]).line
    }
}
