import LogStore
import Mirrors
import Runtime
import Tree

struct MirrorInferCommand: Command {
    static let specification = CommandSpecification(
        "mirror infer", "reads data and proposes mirrors, with the evidence for each column and its conversion errors",
        positionals: ["PATH"],
        options: [
            MirrorOptions.namespace, .init("limit", "N", "the most records of a mirror to read; default 100000"),
            OutputFile.option, .json,
        ] + DatabaseLocator.options,
        notes: [
            "PATH may have captures, such as /rooms/{room_id}/messages/{message_id}. Without captures, its children are the records, or contain them; / covers the whole namespace. Collections in records, such as an order's items, become mirrors of their own. The data at PATH is held in memory."
        ])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let limit = try arguments.integer("limit", in: 1...1_000_000_000) ?? 100_000
        let connection = try DatabaseLocator.connection(arguments, console, "mirror infer")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        let path = arguments.positionals[0]
        let pattern = path.hasPrefix("/") ? path : "/\(path)"
        var leftOut: [String] = []
        var inferences = try console.reporting("infer: reading \(path)", isQuiet: arguments.has("json")) { line in
            try Inference.run(connection, namespace, pattern: pattern, limit: limit) {
                try console.interruption.check()
                if case .leftOut(let path) = $0 { return leftOut.append(path) }
                line.note("infer: reading \(text($0))")
            }
        }
        try console.interruption.check()
        // The file then names this namespace, so that `mirror apply` needs no `--ns`.
        if arguments["ns"] != nil { inferences = inferences.map { $0.naming(namespace.name) } }
        for path in leftOut {
            console.error("\(path): left out, as a mirror's path can't have keys with { or }, or so long ones")
        }
        let output = try OutputFile(arguments["output"], standardOutput: console.output)
        if arguments.has("json") {
            for inference in inferences { try output.write(Array("\(json(inference))\n".utf8)) }
        } else {
            for inference in inferences { explain(inference, console) }
            try output.write(file(inferences.map(\.definition)) + [0x0A])
        }
        try output.finish()
    }

    private static func text(_ stage: Inference.Stage) -> String {
        switch stage {
        case .path(let key), .leftOut(let key): key
        case .records(let table, let count): "\(Counted.text(count, "record")) for \(table)"
        }
    }

    /// One definition, or an array of them.
    private static func file(_ definitions: [MirrorDefinition]) -> [UInt8] {
        let texts = definitions.map { $0.encoded(pretty: true) }
        guard texts.count > 1 else { return texts.first ?? [] }
        return Array("[\n".utf8) + texts.joined(separator: Array(",\n".utf8)) + Array("\n]".utf8)
    }

    private static func explain(_ inference: Inference, _ console: Console) {
        console.error("\(Counted.text(inference.recordCount, "record")) at \(inference.definition.pattern)")
        for evidence in inference.evidence {
            var text = "  \(evidence.column)  \(evidence.type.rawValue)  from \(evidence.path): in "
            text += presence(evidence, inference.recordCount)
            if evidence.conversionErrors > 0 {
                text +=
                    ", \(evidence.conversionErrors) can't be converted, such as \(evidence.conversionErrorExamples.joined(separator: ", "))"
            }
            let others = evidence.alternatives.map(\.rawValue).joined(separator: " or ")
            if !others.isEmpty { text += "; all of them could be \(others)" }
            if let nearly = evidence.nearly {
                let examples = nearly.conversionErrorExamples.joined(separator: ", ")
                text += "; all but \(nearly.conversionErrors) look like \(nearly.type.rawValue), not \(examples)"
            }
            if evidence.looksLikeSeconds { text += "; they look like seconds since 1970" }
            console.error(text)
        }
        let left = inference.pathsLeftOut
        if !left.isEmpty {
            let whose = inference.definition.rest == nil ? "which no column contains" : "which the rest column contains"
            let examples = left.prefix(3).joined(separator: ", ") + (left.count > 3 ? ", …" : "")
            console.error("  \(Counted.text(left.count, "more place")), \(whose): \(examples)")
        }
    }

    /// How many records have a value, with an example of the smaller group, which is the one to examine.
    private static func presence(_ evidence: Inference.Evidence, _ all: Int) -> String {
        guard let missing = evidence.missing else { return "all records" }
        let isRare = 2 * evidence.present < all
        return "\(evidence.present) of \(Counted.text(all, "record"))"
            + (isRare ? ", such as \(evidence.example)" : ", not \(missing)")
    }

    private static func json(_ inference: Inference) -> String {
        JSONOutput.object([
            "records": .number(Int64(inference.recordCount)), "example": .text(inference.example),
            "definition": .raw(inference.definition.json), "evidence": .list(inference.evidence.map(json)),
            "placesLeftOut": .list(inference.pathsLeftOut.map { .text($0) }),
        ]).line
    }

    private static func json(_ evidence: Inference.Evidence) -> JSONOutput {
        .object([
            "column": .text(evidence.column), "type": .text(evidence.type.rawValue), "path": .text(evidence.path),
            "present": .number(Int64(evidence.present)), "example": .text(evidence.example),
            "missing": JSONOutput(evidence.missing),
            "misfits": .number(Int64(evidence.conversionErrors)),
            "misfitExamples": .list(evidence.conversionErrorExamples.map { .text($0) }),
            "alternatives": .list(evidence.alternatives.map { .text($0.rawValue) }),
            "nearly": evidence.nearly.map(json) ?? .null, "looksLikeSeconds": .bool(evidence.looksLikeSeconds),
        ])
    }

    private static func json(_ nearly: Inference.Nearly) -> JSONOutput {
        .object([
            "type": .text(nearly.type.rawValue), "misfits": .number(Int64(nearly.conversionErrors)),
            "misfitExamples": .list(nearly.conversionErrorExamples.map { .text($0) }),
        ])
    }
}
