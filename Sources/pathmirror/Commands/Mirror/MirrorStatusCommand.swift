import LogStore
import Mirrors

struct MirrorStatusCommand: Command {
    static let specification = CommandSpecification(
        "mirror status", "shows how far the mirrors have come; exits 1 if one is broken", positionals: ["[NAME]"],
        options: [MirrorOptions.namespace, .json] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(
            arguments, of: arguments.positionals.isEmpty ? .namespaceIfGiven : .namespace)
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
