import LogStore
import Mirrors
import Runtime
import Tree

struct MirrorListCommand: Command {
    static let specification = CommandSpecification(
        "mirror ls", "lists the mirrors and how large their tables are",
        options: [.init("ns", "NAME", "only this namespace's; default all"), .json] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(arguments, console, of: .namespaceIfGiven)
        defer { administration.close() }
        let namespace = try MirrorOptions.namespaceIfGiven(arguments, administration)
        var table = TextTable(["NAMESPACE", "NAME", "PATTERN → TABLE", "ROWS", "SIZE", "", ""], numbers: [3, 4])
        for mirror in try administration.mirrors() where namespace == nil || namespace == mirror.namespace {
            let size = administration.size(of: mirror)
            if arguments.has("json") {
                let line = JSONOutput.object([
                    "namespace": .text(mirror.namespace), "name": .text(mirror.name), "paused": .bool(mirror.isPaused),
                    "rows": size.map { .number($0.rowCount) } ?? .null,
                    "rowsAreEstimated": .bool(size?.isEstimate ?? false),
                    "bytes": size.map { .number($0.byteCount) } ?? .null,
                    "definition": .raw(mirror.definition.json),
                    "begins": MirrorOptions.begins(administration.beginning(of: mirror)),
                ]).line
                console.write(line)
            } else {
                table.add(
                    mirror.namespace, mirror.name, "\(mirror.definition.pattern) → \(mirror.definition.tableName)",
                    size.map { ($0.isEstimate ? "~" : "") + "\($0.rowCount)" } ?? "",
                    size.map { ByteCount.text($0.byteCount) } ?? "", mirror.isPaused ? "paused" : "",
                    mirror.target != nil ? "in another database" : "")
            }
        }
        table.write(to: console)
    }
}
