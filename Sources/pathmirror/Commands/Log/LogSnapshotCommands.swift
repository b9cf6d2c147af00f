import LogStore
import Runtime
import Tree

/// Stores, lists and removes snapshots of whole trees.
struct LogSnapshotCommand: Command {
    static let specification = CommandSpecification(
        "log snapshot", "stores the whole tree at a position, so that later trees are rebuilt from it",
        options: [
            ReplayOptions.namespace,
            .init("at", "SEQ|TIME", "the position: a seq, a time, or an age (1h, 2d); default now"),
            .init("list", nil, "lists the snapshots instead"), .init("drop", "SEQ", "removes a snapshot instead"),
            ReplayProgress.rateOption, .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let moment = try ReplayOptions.seqOrTime(arguments, "at")
        let rate = try ReplayProgress.rate(arguments)
        let dropped = try arguments.integer("drop", in: 0...Int(Int64.max))
        let connection = try DatabaseLocator.connection(arguments, console, "log snapshot")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        if arguments.has("list") { return try list(connection, namespace, arguments, console) }
        if let dropped { return try drop(Int64(dropped), connection, namespace, console) }
        let isQuiet = arguments.has("json")
        let seq: Int64
        if let moment, moment != .head {
            seq = try moment.seq(connection, namespace)
            let tree = try ReplayOptions.tree(
                connection, namespace, at: seq, console, "snapshot", rate: rate, isQuiet: isQuiet)
            try console.reporting("snapshot: writing \(Counted.text(tree.root.rowCount, "leaf"))", isQuiet: isQuiet) {
                _ in
                try connection.saveSnapshot(namespace.id, at: seq, tree.root)
            }
        } else {
            let progress = ReplayProgress(
                console, "snapshot", "leaves", total: try connection.estimatedRows(namespace.id, below: .root),
                isEstimate: true, rate: rate, isQuiet: isQuiet)
            defer { progress.end() }
            seq = try connection.takeSnapshot(namespace.id) { progress.advance(to: Int64($0)) }
        }
        let rows = try connection.snapshots(namespace.id).first { $0.seq == seq }?.rowCount ?? 0
        console.write(
            isQuiet
                ? JSONOutput.object(["seq": .number(seq), "rows": .number(rows)]).line
                : "Stored the tree at seq \(seq): \(Counted.text(rows, "leaf")).")
    }

    private static func list(
        _ connection: LogConnection, _ namespace: NamespaceRecord, _ arguments: ParsedArguments, _ console: Console
    ) throws {
        var table = TextTable(["SEQ", "TIME", "SIZE", "MADE BY"], numbers: [0, 2])
        for snapshot in try connection.snapshots(namespace.id) {
            let time = Timestamp.iso8601(unixMilliseconds: snapshot.createdAt)
            guard arguments.has("json") else {
                table.add("\(snapshot.seq)", time, Counted.text(snapshot.rowCount, "leaf"), snapshot.purpose.rawValue)
                continue
            }
            console.write(
                JSONOutput.object([
                    "seq": .number(snapshot.seq), "createdAt": .text(time), "rows": .number(snapshot.rowCount),
                    "madeBy": .text(snapshot.purpose.rawValue),
                ]).line)
        }
        table.write(to: console)
    }

    private static func drop(
        _ seq: Int64, _ connection: LogConnection, _ namespace: NamespaceRecord, _ console: Console
    ) throws {
        guard seq != namespace.retainedFrom - 1 else {
            throw CommandFailure(
                "The log begins right after the snapshot at seq \(seq): without the snapshot no tree can be rebuilt.")
        }
        guard try connection.dropSnapshot(namespace.id, at: seq) else { throw ReplayError.noSnapshot(seq: seq) }
        console.write("Removed the snapshot at seq \(seq).")
    }
}
