import LogStore
import Mirrors

struct MirrorStatusCommand: Command {
    static let specification = CommandSpecification(
        "mirror status", "shows how far the mirrors have come; exits 1 if one is broken", positionals: ["[NAME]"],
        options: [
            .init("ns", "NAME", "only this namespace's; default all, and with NAME \"default\""), .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(
            arguments, console, of: arguments.positionals.isEmpty ? .namespaceIfGiven : .namespace)
        defer { administration.close() }
        let namespace = try MirrorOptions.namespaceIfGiven(arguments, administration)
        var statuses = try administration.statuses().filter { namespace == nil || $0.namespace == namespace }
        if let name = arguments.positionals.first {
            let mirror = try MirrorOptions.mirror(arguments, administration)
            statuses.removeAll { $0.name != name || $0.namespace != mirror.namespace }
        }
        var table = TextTable(["NAMESPACE", "NAME", "STATE", "PLACE", "LAG", "ERRORS"])
        for status in statuses {
            if arguments.has("json") { console.write(json(status)) } else { add(status, to: &table) }
        }
        table.write(to: console)
        if let broken = statuses.first(where: { $0.state == "broken" }) {
            throw CommandFailure("Mirror \"\(broken.name)\" is broken: \(broken.message ?? "")")
        }
    }

    private static func add(_ status: MirrorStatus, to table: inout TextTable) {
        let lag = status.lagMilliseconds.flatMap {
            $0 > 0 ? "\(LagText.text(seconds: Double($0) / 1_000)) behind" : nil
        }
        var errors = status.errors > 0 ? Counted.text(status.errors, "error") : ""
        if status.unkeptErrors > 0 {
            errors += " and \(status.unkeptErrors) that \(status.unkeptErrors == 1 ? "was" : "were") not kept"
        }
        table.add(
            status.namespace, status.name, status.state, status.seq.map { "seq \($0) of \(status.head)" } ?? "",
            lag ?? "", errors)
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
