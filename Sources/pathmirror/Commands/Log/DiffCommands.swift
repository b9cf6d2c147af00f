import LogStore
import Runtime
import Tree

/// What changed between two moments.
struct DiffCommand: Command {
    static let specification = CommandSpecification(
        "diff", "says in which leaves two trees differ: NS@SEQ, NS@TIME, or NS for its head",
        positionals: ["NS[@SEQ|TIME]", "NS[@SEQ|TIME]"],
        options: [ReplayOptions.path, ReplayProgress.rateOption, .json] + Database.options,
        notes: [
            "A TIME may also be how long ago: default@1h, default@2d. Exits 0 where the trees are equal, 1 where they differ, and 2 where they could not be compared."
        ])
    static let failureCode: Int32 = 2

    private struct Side {
        let connection: LogConnection
        let namespace: NamespaceRecord
        let seq: Int64
    }

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let path = try ReplayOptions.path(arguments)
        let rate = try ReplayProgress.rate(arguments)
        let sides = try arguments.positionals.map { try side($0, arguments, console) }
        defer { for side in sides { side.connection.close() } }
        let load = { (side: Side) throws -> PastTree in
            try ReplayOptions.tree(side.connection, side.namespace, at: side.seq, within: path) {
                ReplayProgress(console, "replay", total: side.seq - $0.seq, rate: rate)
            }
        }
        let old: Node
        let new: Node
        if sides[0].namespace.streamKey == sides[1].namespace.streamKey {
            // One way through the log passes both.
            let earlier = sides[0].seq <= sides[1].seq ? 0 : 1
            var tree = try load(sides[earlier])
            let first = tree.root
            try tree.advance(to: sides[1 - earlier].seq)
            (old, new) = earlier == 0 ? (first, tree.root) : (tree.root, first)
        } else {
            old = try load(sides[0]).root
            new = try load(sides[1]).root
        }
        var diff = RowDiff(DiffWriter(console, isJSON: arguments.has("json")))
        diff.compare(old, new, changedAt: .root)
        diff.sink.flush()
        if diff.sink.isDifferent { throw CommandEnd(1) }
    }

    private static func side(_ text: String, _ arguments: ParsedArguments, _ console: Console) throws -> Side {
        var name = text
        var moment = LogPosition.head
        if let at = text.lastIndex(of: "@") {
            name = String(text[..<at])
            do {
                moment = try LogPosition(moment: String(text[text.index(after: at)...]))
            } catch {
                throw UsageError("\(text): \(error)")
            }
        }
        let connection = try Database.connection(arguments, console, "diff", of: .of(name))
        guard let namespace = try connection.namespace(named: name) else {
            throw CommandFailure("There is no namespace \"\(name)\".")
        }
        return Side(connection: connection, namespace: namespace, seq: try moment.seq(connection, namespace))
    }
}

/// Writes differences as they are found.
private struct DiffWriter: RowSink {
    private let console: Console
    private let isJSON: Bool
    private var output: [UInt8] = []
    private(set) var isDifferent = false

    init(_ console: Console, isJSON: Bool) {
        self.console = console
        self.isJSON = isJSON
    }

    mutating func row(_ path: [UInt8], old: Node, new: Node) {
        isDifferent = true
        if isJSON {
            var writer = JSONWriter(form: .export)
            writer.beginObject()
            writer.writeKey("path", isFirst: true)
            writer.writeString(String(decoding: path, as: UTF8.self))
            writer.writeKey("old", isFirst: false)
            writer.write(old)
            writer.writeKey("new", isFirst: false)
            writer.write(new)
            writer.endObject()
            output.append(contentsOf: writer.bytes)
        } else {
            output.append(contentsOf: path)
            output.append(contentsOf: ": \(Self.text(old)) → \(Self.text(new))".utf8)
        }
        output.append(0x0A)
        if output.count >= 64 * 1024 { flush() }
    }

    mutating func flush() {
        console.writeBytes(output)
        output.removeAll(keepingCapacity: true)
    }

    private static func text(_ node: Node) -> String {
        node.isNull ? "nothing" : String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self)
    }
}

/// Which entries wrote what is at a path.
struct LogBlameCommand: Command {
    static let specification = CommandSpecification(
        "log blame",
        "lists the entries that wrote at, above or below a path, newest first; * marks what is still there",
        positionals: ["PATH"],
        options: [
            ReplayOptions.namespace, .init("limit", "N", "the most entries; default 50"), .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let path = try PathArgument.parse(arguments.positionals[0])
        var left = try arguments.integer("limit", in: 0...Int(Int64.max)) ?? 50
        let connection = try Database.connection(arguments, console, "log blame")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection)
        guard left > 0 else { return }
        var isFound = false
        try Blame.run(connection, namespace, path) { line in
            isFound = true
            console.write(arguments.has("json") ? json(line) : text(line))
            left -= 1
            return left > 0
        }
        if !isFound, !arguments.has("json") {
            console.error("No entry from \(namespace.retainedFrom) on wrote \(path).")
        }
    }

    private static func text(_ line: Blame.Line) -> String {
        let entry = line.entry
        let changes = String(decoding: ChangeCodec.encode(line.changes), as: UTF8.self)
        let shown = changes.utf8.count > 200 ? "\(changes.prefix(200))… (\(changes.utf8.count) bytes)" : changes
        return "\(line.isCurrent ? "*" : " ") \(entry.seq)  \(Timestamp.iso8601(unixMilliseconds: entry.committedAt))  "
            + "\(OriginText.whom(entry.origin))  \(entry.operation.rawValue)  \(shown)"
    }

    private static func json(_ line: Blame.Line) -> String {
        JSONOutput.object([
            "seq": .number(line.entry.seq),
            "committedAt": .text(Timestamp.iso8601(unixMilliseconds: line.entry.committedAt)),
            "op": .text(line.entry.operation.rawValue), "path": .text(line.entry.path.description),
            "origin": line.entry.origin.map { .raw($0.json) } ?? .null, "current": .bool(line.isCurrent),
            "changes": .raw(ChangeCodec.encode(line.changes)),
        ]).line
    }
}
