import LogStore
import Mirrors
import Runtime
import Tree

struct MirrorInferCommand: Command {
    static let specification = CommandSpecification(
        "mirror infer", "reads records and proposes a definition, with counts of what would not fit",
        positionals: ["PATH"],
        options: [
            MirrorOptions.namespace, .init("limit", "N", "the most records to look at; default 100000"), .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        Signals.unblock()
        let connection = try Database.connection(arguments, "mirror infer")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection)
        let path = arguments.positionals[0]
        let inference = try Inference.run(
            connection, namespace, pattern: path.hasPrefix("/") ? path : "/\(path)",
            limit: try arguments.integer("limit", in: 1...1_000_000_000) ?? 100_000)
        let definition = String(decoding: inference.definition.encoded(pretty: true), as: UTF8.self)
        guard !arguments.has("json") else {
            return console.write(json(inference))
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
        console.write(definition)
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

struct MirrorListCommand: Command {
    static let specification = CommandSpecification(
        "mirror ls", "lists the mirrors", options: [.json] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(arguments)
        defer { administration.close() }
        for mirror in try administration.mirrors() {
            if arguments.has("json") {
                let line = JSONOutput.object([
                    "namespace": .text(mirror.namespace), "name": .text(mirror.name), "paused": .bool(mirror.isPaused),
                    "definition": .raw(mirror.definition.json),
                ]).line
                console.write(line)
            } else {
                console.write(
                    "\(mirror.namespace)  \(mirror.name)  \(mirror.definition.pattern) → \(mirror.definition.tableName)"
                        + (mirror.isPaused ? "  paused" : "") + (mirror.target != nil ? "  in another database" : ""))
            }
        }
    }
}

struct MirrorStatusCommand: Command {
    static let specification = CommandSpecification(
        "mirror status", "shows how far the mirrors have come; exits 1 if one is broken", positionals: ["[NAME]"],
        options: [MirrorOptions.namespace, .json] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(arguments)
        defer { administration.close() }
        var statuses = try administration.statuses()
        if let name = arguments.positionals.first {
            let mirror = try MirrorOptions.mirror(arguments, administration)
            statuses.removeAll { $0.name != name || $0.namespace != mirror.namespace }
        }
        for status in statuses {
            console.write(arguments.has("json") ? json(status) : line(status))
        }
        if let broken = statuses.first(where: { $0.state == "broken" }) {
            throw CommandFailure("Mirror \"\(broken.name)\" is broken: \(broken.message ?? "")")
        }
    }

    private static func line(_ status: MirrorStatus) -> String {
        var line = "\(status.namespace)  \(status.name)  \(status.state)"
        if let seq = status.seq { line += "  seq \(seq) of \(status.head)" }
        if let lag = status.lagMilliseconds, lag > 0 { line += "  \(lag) ms behind" }
        if status.errors > 0 { line += "  \(status.errors) errors" }
        if status.unkeptErrors > 0 { line += " and \(status.unkeptErrors) that were not kept" }
        return line
    }

    private static func json(_ status: MirrorStatus) -> String {
        JSONOutput.object([
            "namespace": .text(status.namespace), "name": .text(status.name), "table": .text(status.table),
            "state": .text(status.state), "seq": number(status.seq), "head": .number(status.head),
            "lagEntries": number(status.lagEntries), "lagMilliseconds": number(status.lagMilliseconds),
            "errors": .number(status.errors), "unkeptErrors": .number(status.unkeptErrors),
            "message": JSONOutput(status.message),
            "gateway": JSONOutput(status.gateway),
        ]).line
    }

    private static func number(_ value: Int64?) -> JSONOutput { value.map(JSONOutput.number) ?? .null }
}

struct MirrorPauseCommand: Command {
    static let specification = CommandSpecification(
        "mirror pause", "stops a mirror's following of the log; its table stays", positionals: ["NAME"],
        options: [MirrorOptions.namespace] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        try MirrorSwitch.set(arguments, isPaused: true)
    }
}

struct MirrorResumeCommand: Command {
    static let specification = CommandSpecification(
        "mirror resume", "lets a paused mirror follow the log again", positionals: ["NAME"],
        options: [MirrorOptions.namespace] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        try MirrorSwitch.set(arguments, isPaused: false)
    }
}

private enum MirrorSwitch {
    static func set(_ arguments: ParsedArguments, isPaused: Bool) throws {
        let administration = try MirrorOptions.administration(arguments)
        defer { administration.close() }
        let mirror = try MirrorOptions.mirror(arguments, administration)
        try Catalog.setPaused(administration.source.postgres, mirror, isPaused)
    }
}

struct MirrorDropCommand: Command {
    static let specification = CommandSpecification(
        "mirror drop", "removes a mirror and its table", positionals: ["NAME"],
        options: [MirrorOptions.namespace, .init("yes", nil, "doesn't ask")] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(arguments)
        defer { administration.close() }
        let mirror = try MirrorOptions.mirror(arguments, administration)
        guard
            arguments.has("yes")
                || console.confirms("Drop \(mirror.name) with its table \(mirror.definition.tableName)?")
        else { throw CommandFailure("Nothing was changed. Give --yes to drop without being asked.") }
        try administration.drop(mirror)
    }
}

struct MirrorErrorsCommand: Command {
    static let specification = CommandSpecification(
        "mirror errors", "lists values that did not fit their columns, or tries them again", positionals: ["NAME"],
        options: [
            MirrorOptions.namespace, .init("retry", nil, "reads the records again, and lists nothing"),
            .init("limit", "N", "the most errors to list; default 1000"), .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(arguments)
        defer { administration.close() }
        let mirror = try MirrorOptions.mirror(arguments, administration)
        if arguments.has("retry") {
            let (records, left) = try administration.retryConversionErrors(mirror)
            if !arguments.has("json") {
                console.write("\(records) records were read again; \(left) errors are left.")
                return try tellUnkept(mirror, administration, console)
            }
            let line = JSONOutput.object(["records": .number(Int64(records)), "left": .number(Int64(left))]).line
            return console.write(line)
        }
        let limit = try arguments.integer("limit", in: 1...1_000_000_000) ?? 1_000
        for misfit in try administration.misfits(mirror, limit: limit) {
            guard arguments.has("json") else {
                console.write(
                    "\(misfit.path)  seq \(misfit.seq)  \(misfit.column.isEmpty ? "(row)" : misfit.column): \(misfit.reason)"
                        + (misfit.value.map { "  \($0.prefix(100))" } ?? ""))
                continue
            }
            let line = JSONOutput.object([
                "record": .text(misfit.record), "column": .text(misfit.column), "path": .text(misfit.path),
                "seq": .number(misfit.seq), "value": JSONOutput(misfit.value), "reason": .text(misfit.reason),
                "foundAt": .text(Timestamp.iso8601(unixMilliseconds: misfit.foundAt)),
            ]).line
            console.write(line)
        }
        try tellUnkept(mirror, administration, console)
    }

    private static func tellUnkept(
        _ mirror: CatalogMirror, _ administration: MirrorAdministration, _ console: Console
    ) throws {
        let unkept = try administration.unkeptErrors(mirror)
        guard unkept > 0 else { return }
        console.error(
            "\(unkept) more errors were found and not kept, as there were too many: see \"keep errors\" of the definition. 'pathmirror replay mirror \(mirror.name)' looks at every record again."
        )
    }
}
