import LogStore
import Runtime

/// Shows what of each log stays, and how its shortening went.
struct RetentionListCommand: Command {
    static let specification = CommandSpecification(
        "retention ls", "shows what of each log stays, and how dropping the rest went; exits 1 if it failed for one",
        options: [.init("ns", "NAME", "only this namespace's; default all"), .json] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try Database.connection(arguments, console, "retention ls", of: .namespaceIfGiven)
        defer { connection.close() }
        let wanted = try arguments["ns"].map { _ in try Database.namespace(arguments, connection) }
        let forAll = try connection.retentionPolicy(of: nil)
        let asJSON = arguments.has("json")
        var table = TextTable(["NAMESPACE", "KEEPS", "ENTRIES", "DROPPED", "LAST LOOK", "NOTE"], numbers: [3])
        table.add("all others", forAll.map(RetentionOptions.text) ?? "everything", "", "", "", "")
        var failed = 0
        for namespace in try wanted.map({ [$0] }) ?? connection.allNamespaces() {
            let own = try connection.retentionPolicy(of: namespace.id)
            let run = try connection.retentionRun(of: namespace.id)
            if run?.message != nil { failed += 1 }
            // Of many namespaces that nothing was said for, and nothing was done to, there is nothing to say.
            if !asJSON, wanted == nil, own == nil, run == nil { continue }
            if asJSON {
                console.write(line(namespace, own, forAll, run).line)
            } else {
                table.add(cells(namespace, own, run))
            }
        }
        if !asJSON { table.write(to: console) }
        if failed > 0 { throw CommandFailure("Logs that could not be shortened: \(failed).") }
    }

    private static func line(
        _ namespace: NamespaceRecord, _ own: RetentionPolicy?, _ forAll: RetentionPolicy?, _ run: RetentionRun?
    ) -> JSONOutput {
        .object([
            "namespace": .text(namespace.name), "head": .number(namespace.head),
            "retainedFrom": .number(namespace.retainedFrom),
            "policy": JSONOutput((own ?? forAll).map(RetentionOptions.text)), "isOwn": .bool(own != nil),
            "ranAt": JSONOutput(run.map { Timestamp.iso8601(unixMilliseconds: $0.ranAt) }),
            "dropped": run.map { .number($0.dropped) } ?? .null,
            "snapshots": run.map { .number($0.snapshots) } ?? .null,
            "waitsFor": JSONOutput(run?.waitsFor), "message": JSONOutput(run?.message),
        ])
    }

    private static func cells(
        _ namespace: NamespaceRecord, _ own: RetentionPolicy?, _ run: RetentionRun?
    ) -> [String] {
        var notes: [String] = []
        if let reader = run?.waitsFor { notes.append("\(reader) still needs more") }
        if let message = run?.message { notes.append("failed: \(message)") }
        return [
            namespace.name, own.map(RetentionOptions.text) ?? "as all others",
            "\(namespace.retainedFrom) to \(namespace.head)", run.map { "\($0.dropped)" } ?? "",
            run.map { Timestamp.iso8601(unixMilliseconds: $0.ranAt) } ?? "", notes.joined(separator: "; "),
        ]
    }
}
