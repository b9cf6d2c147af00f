import LogStore
import Runtime
import Tree

/// Shows the differences between two trees.
struct DiffCommand: Command {
    static let specification = CommandSpecification(
        "diff",
        "lists the leaves in which two trees differ: NS@SEQ, NS@TIME, NS for its head, a JSON export, or a live upstream",
        positionals: ["NS[@SEQ|TIME]", "NS[@SEQ|TIME]|FILE|URL"],
        options: [ReplayOptions.path, DiffSide.credentials, ReplayProgress.rateOption, .json] + DatabaseLocator.options,
        notes: [
            "A TIME may also be an age: default@1h, default@2d. Exits 0 if the trees are equal, 1 if they differ, and 2 if they could not be compared.",
            "A FILE is named with a / or an ending such as .json or .json.gz, and holds the value at --path. A URL names a Realtime Database as in 'follow add'; it sends only what differs.",
        ])
    static let failureCode: Int32 = 2
    static let whenInterrupted = "There may be more differences than those above. Nothing was changed."

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let path = try ReplayOptions.path(arguments)
        let rate = try ReplayProgress.rate(arguments)
        let sides = try arguments.positionals.map { try DiffSide($0, arguments, console) }
        defer { for side in sides { side.close() } }
        let (old, new) = try DiffSide.trees(sides[0], sides[1], path, rate, arguments, console)
        var diff = RowDiff(DiffWriter(console, isJSON: arguments.has("json")))
        diff.compare(old, new, changedAt: .root)
        diff.sink.flush()
        try console.interruption.check()
        if diff.sink.isDifferent { throw CommandEnd(1) }
    }
}

/// Writes differences as they are found.
private struct DiffWriter: RowSink {
    private let console: Console
    private let isJSON: Bool
    private var output: [UInt8] = []
    private(set) var isDifferent = false
    private var isStopped = false

    init(_ console: Console, isJSON: Bool) {
        self.console = console
        self.isJSON = isJSON
    }

    mutating func row(_ path: [UInt8], old: Node, new: Node) {
        isDifferent = true
        // After an interruption, or once the reader is gone, the remaining rows are skipped silently.
        guard !isStopped else { return }
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
        if !console.writeBytes(output) || console.interruption.signal != nil { isStopped = true }
        output.removeAll(keepingCapacity: true)
    }

    private static func text(_ node: Node) -> String {
        node.isNull ? "nothing" : String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self)
    }
}

/// Lists the entries that wrote the value at a path.
struct LogBlameCommand: Command {
    static let specification = CommandSpecification(
        "log blame",
        "lists the entries that wrote at, above or below a path, newest first; * marks values that are still there",
        positionals: ["PATH"],
        options: [
            ReplayOptions.namespace, ReplayOptions.from, ReplayOptions.to,
            .init("limit", "N", "the most entries; default 50"), .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let path = try PathArgument.parse(arguments.positionals[0])
        let from = try ReplayOptions.seqOrTime(arguments, "from")
        let to = try ReplayOptions.seqOrTime(arguments, "to")
        var left = try arguments.integer("limit", in: 0...Int(Int64.max)) ?? 50
        let connection = try DatabaseLocator.connection(arguments, console, "log blame")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        guard left > 0 else { return }
        let range = try LogRange(from, to, connection, namespace)
        if let remark = range.remark { console.error(remark) }
        var isFound = false
        var table = table(head: namespace.head, width: console.outputWidth)
        try console.reporting("blame: reading the present values", isQuiet: arguments.has("json")) { progress in
            try Blame.run(
                connection, namespace, path, from: range.first, to: range.last,
                looked: {
                    progress.note("blame: reading entries before \($0), the first is \(range.first)")
                }
            ) { line in
                isFound = true
                if arguments.has("json") {
                    console.write(json(line))
                } else {
                    for text in table.lines(cells(line)) { console.write(text) }
                }
                left -= 1
                return left > 0
            }
        }
        if !isFound, !arguments.has("json") {
            guard range.first <= range.last || (from == nil && to == nil) else {
                return console.error("There are no entries from \(range.first) to \(range.last).")
            }
            let end = to == nil ? "on" : "to \(range.last)"
            console.error("No entry from \(range.first) \(end) wrote \(path).")
        }
    }

    private static func table(head: Int64, width: Int?) -> StreamedTable {
        let seq = EntryText.seqColumn(head: head)
        return StreamedTable(
            [
                .init("  \(seq.title)", (seq.width ?? 0) + 2, isNumber: true), EntryText.timeColumn,
                EntryText.authorColumn(width), EntryText.operationColumn(width), .init("CHANGES"),
            ], width: width)
    }

    private static func cells(_ line: Blame.Line) -> [String] {
        let entry = line.entry
        return [
            "\(line.isCurrent ? "*" : " ") \(entry.seq)", Timestamp.iso8601(unixMilliseconds: entry.committedAt),
            OriginText.author(entry.origin), entry.operation.rawValue, EntryText.shown(line.changes),
        ]
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
