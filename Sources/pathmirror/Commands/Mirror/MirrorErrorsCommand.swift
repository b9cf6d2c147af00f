import LogStore
import Mirrors
import Runtime
import Tree

struct MirrorErrorsCommand: Command {
    static let whenInterrupted = "Records that were converted again remain so; the same command resumes."
    static let specification = CommandSpecification(
        "mirror errors", "lists conversion errors, or converts their records again", positionals: ["NAME"],
        options: [
            MirrorOptions.namespace, .init("retry", nil, "converts the records again, and lists nothing"),
            .init("limit", "N", "the most errors to list; default 1000"), .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(arguments, console)
        defer { administration.close() }
        let mirror = try MirrorOptions.mirror(arguments, administration)
        if arguments.has("retry") {
            let (records, left) = try console.reporting(
                "\(mirror.name): converting records again", isQuiet: arguments.has("json")
            ) { line in
                try administration.retryConversionErrors(mirror) {
                    line.note("\(mirror.name): reading \(Counted.text($0, "record")) again")
                }
            }
            if !arguments.has("json") {
                let read = Counted.text(records, "record", "was", "were")
                console.write("\(read) converted again; \(Counted.text(left, "error", "is", "are")) left.")
                return try reportUnkept(mirror, administration, arguments, console)
            }
            let line = JSONOutput.object(["records": .number(Int64(records)), "left": .number(Int64(left))]).line
            return console.write(line)
        }
        var table = TextTable(["PATH", "SEQ", "COLUMN", "REASON", "VALUE"], numbers: [1])
        let limit = try arguments.integer("limit", in: 1...1_000_000_000) ?? 1_000
        for (conversionError, foundAt) in try administration.conversionErrors(mirror, limit: limit) {
            guard arguments.has("json") else {
                table.add(
                    conversionError.path, "\(conversionError.seq)",
                    conversionError.column.isEmpty ? "(row)" : conversionError.column, conversionError.reason,
                    conversionError.value.map { String($0.prefix(100)) } ?? "")
                continue
            }
            let line = JSONOutput.object([
                "record": .text(conversionError.record), "column": .text(conversionError.column),
                "path": .text(conversionError.path),
                "seq": .number(conversionError.seq), "value": value(conversionError),
                "reason": .text(conversionError.reason),
                "foundAt": .text(Timestamp.iso8601(unixMilliseconds: foundAt)),
            ]).line
            console.write(line)
        }
        table.write(to: console)
        if mirror.definition.isHistory {
            console.error(
                "\(mirror.name) is a history: these are rows that its table rejected. Conversion errors are in its column _misfits."
            )
        }
        try reportUnkept(mirror, administration, arguments, console)
    }

    /// The value as JSON. A value that was too long to be stored whole is the text of its beginning.
    private static func value(_ conversionError: MirrorErrorRecord) -> JSONOutput {
        guard let text = conversionError.value else { return .null }
        guard (try? JSONParser.parse(Array(text.utf8))) != nil else { return .text(text) }
        return .raw(Array(text.utf8))
    }

    private static func reportUnkept(
        _ mirror: CatalogMirror, _ administration: MirrorAdministration, _ arguments: ParsedArguments,
        _ console: Console
    ) throws {
        let unkept = try administration.unkeptErrors(mirror)
        guard unkept > 0 else { return }
        console.error(
            arguments.completing(
                "\(Counted.text(unkept, "more error", "was", "were")) found and not stored, as there were too many: see \"keep errors\" of the definition. 'pathmirror replay mirror \(mirror.name)' converts every record again."
            ))
    }
}
