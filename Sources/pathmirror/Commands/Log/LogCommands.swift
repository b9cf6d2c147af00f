import LogStore
import Runtime
import Tree

/// What the `log` commands have in common.
private enum LogOptions {
    static let namespace = OptionSpecification("ns", "NAME", "the namespace; default \"default\"")
    static let path = OptionSpecification("path", "PATH", "only entries that change something at, above or below it")
    static let from = OptionSpecification("from", "SEQ", "the first seq; default the oldest in the log")
    static let to = OptionSpecification("to", "SEQ", "the last seq; default the newest")

    static func touches(_ entry: Entry, _ path: Path?) -> Bool {
        guard let path else { return true }
        return entry.changes.contains { $0.path.contains(path) || path.contains($0.path) }
            || (entry.isBulk && (entry.path.contains(path) || path.contains(entry.path)))
    }
}

/// One entry as a line: for people, or as JSON.
private enum EntryText {
    static func line(_ entry: Entry) -> String {
        let changes = String(decoding: ChangeCodec.encode(entry.changes), as: UTF8.self)
        let shown = changes.utf8.count > 200 ? "\(changes.prefix(200))… (\(changes.utf8.count) bytes)" : changes
        let bulk = entry.isBulk ? " (and more, in parts)" : ""
        return "\(entry.seq)  \(Timestamp.iso8601(unixMilliseconds: entry.committedAt))  \(entry.operation.rawValue)  "
            + "\(entry.path)  \(shown)\(bulk)"
    }

    static func json(_ entry: Entry) -> String {
        var writer = JSONWriter(form: .export)
        writer.beginObject()
        writer.writeKey("seq", isFirst: true)
        writer.writeInteger(entry.seq)
        writer.writeKey("committedAt", isFirst: false)
        writer.writeString(Timestamp.iso8601(unixMilliseconds: entry.committedAt))
        writer.writeKey("op", isFirst: false)
        writer.writeString(entry.operation.rawValue)
        writer.writeKey("path", isFirst: false)
        writer.writeString(entry.path.description)
        writer.writeKey("origin", isFirst: false)
        writer.append(entry.origin?.json ?? Array("null".utf8))
        writer.writeKey("bulk", isFirst: false)
        writer.write(.bool(entry.isBulk))
        writer.writeKey("changes", isFirst: false)
        writer.beginObject()
        for (index, change) in entry.changes.enumerated() {
            writer.writeKey(change.path.description, isFirst: index == 0)
            writer.write(change.value)
        }
        writer.endObject()
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

struct LogListCommand: Command {
    static let specification = CommandSpecification(
        "log ls", "lists entries of the replication log",
        options: [
            LogOptions.namespace, LogOptions.from, LogOptions.to, LogOptions.path,
            .init("limit", "N", "the most entries; default 1000"), .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        console.signals.unblock()
        let connection = try Database.connection(arguments, "log")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection)
        let path = try arguments["path"].map(PathArgument.parse)
        let everything = 0...Int(Int64.max)
        let from = Int64(try arguments.integer("from", in: everything) ?? 0)
        let to = Int64(try arguments.integer("to", in: everything) ?? Int(Int64.max))
        var left = try arguments.integer("limit", in: everything) ?? 1_000
        let before = max(from, namespace.retainedFrom) - 1
        var log = LogFollower(namespace.id, at: LogCursor(seq: before), through: to)
        while left > 0, log.cursor.seq < to {
            switch try log.next(on: connection) {
            case .entries(let page):
                for logged in page where left > 0 && LogOptions.touches(logged.entry, path) {
                    console.write(arguments.has("json") ? EntryText.json(logged.entry) : EntryText.line(logged.entry))
                    left -= 1
                }
            // Pruned while this reads.
            case .missing(let seqs, _): log.restart(at: LogCursor(seq: seqs.upperBound - 1))
            case .bulk, .rules, .takenBack, .end: return
            }
        }
    }
}

struct LogShowCommand: Command {
    static let specification = CommandSpecification(
        "log show", "shows one entry whole", positionals: ["SEQ"],
        options: [LogOptions.namespace, .json] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        guard let seq = Int64(arguments.positionals[0]), seq > 0 else {
            throw UsageError("SEQ must be a whole number from 1.")
        }
        let connection = try Database.connection(arguments, "log")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection)
        guard let entry = try connection.entry(namespace.id, seq)?.entry else {
            throw CommandFailure(
                seq <= namespace.head
                    ? "Entry \(seq) is not in the log any more: it begins at \(namespace.retainedFrom)."
                    : "There is no entry \(seq): the head is \(namespace.head).")
        }
        if arguments.has("json") { return console.write(EntryText.json(entry)) }
        console.write(
            """
            seq        \(entry.seq)
            committed  \(Timestamp.iso8601(unixMilliseconds: entry.committedAt))
            operation  \(entry.operation.rawValue)
            path       \(entry.path)
            """)
        for change in entry.changes {
            let value = JSONWriter.encode(change.value, form: .export, pretty: true)
            console.write("\n\(change.path)\n\(String(decoding: value, as: UTF8.self))")
        }
        guard entry.isBulk else { return }
        try connection.forEachPart(namespace.id, of: seq) { (changes) throws(LogStoreError) in
            for change in changes {
                let value = JSONWriter.encode(change.value, form: .export)
                console.write("\(change.path)  \(String(decoding: value, as: UTF8.self))")
            }
        }
    }
}

struct LogTailCommand: Command {
    static let specification = CommandSpecification(
        "log tail", "writes new entries as they are committed, until interrupted",
        options: [
            LogOptions.namespace, .init("from", "SEQ", "begins with this seq instead of the next one"), LogOptions.path,
            .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try Database.connection(arguments, "log tail")
        defer { connection.close() }
        try connection.listen(to: [.commits])
        let namespace = try Database.namespace(arguments, connection)
        let path = try arguments["path"].map(PathArgument.parse)
        var after = namespace.head
        if let from = try arguments.integer("from", in: 0...Int(Int64.max)) {
            after = max(Int64(from), namespace.retainedFrom) - 1
        }
        // Short waits, as the signals that end this are looked for in between.
        var log = LogFollower(namespace.id, at: LogCursor(seq: after)) { $0.pollMilliseconds = 100 }
        while true {
            switch try log.nextOrWait(on: connection) {
            case .entries(let page):
                for logged in page where LogOptions.touches(logged.entry, path) {
                    let text = arguments.has("json") ? EntryText.json(logged.entry) : EntryText.line(logged.entry)
                    guard console.writeBytes(Array((text + "\n").utf8)) else { return }
                }
            case .missing(let seqs, _): log.restart(at: LogCursor(seq: seqs.upperBound - 1))
            case .bulk, .rules, .takenBack, .end: break
            case nil: if console.signals.isTerminationWanted(milliseconds: 0) { return }
            }
        }
    }
}
