import LogStore
import Runtime
import Tree

/// Functions shared by the `log` commands.
enum LogOptions {
    static let namespace = OptionSpecification("ns", "NAME", "the namespace; default \"default\"")
    static let path = OptionSpecification("path", "PATH", "only entries that change something at, above or below it")
    static let from = OptionSpecification(
        "from", "SEQ|TIME", "the first entry: a seq, a time, or an age (1h, 2d); default the oldest in the log")
    static let to = OptionSpecification(
        "to", "SEQ|TIME", "the last entry: a seq, a time, or an age; default the newest")

    static func touches(_ entry: Entry, _ path: Path?) -> Bool {
        guard let path else { return true }
        return entry.changes.contains { $0.path.contains(path) || path.contains($0.path) }
            || (entry.isBulk && (entry.path.contains(path) || path.contains(entry.path)))
    }
}

struct LogListCommand: Command {
    static let specification = CommandSpecification(
        "log ls", "lists entries of the replication log with their authors",
        options: [
            LogOptions.namespace, LogOptions.from, LogOptions.to, LogOptions.path,
            .init("last", "N", "only the last N of them"),
            .init("limit", "N", "the most entries; default 1000"), .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let from = try ReplayOptions.seqOrTime(arguments, "from")
        let to = try ReplayOptions.seqOrTime(arguments, "to")
        let path = try arguments["path"].map(PathArgument.parse)
        let last = try arguments.integer("last", in: 1...1_000_000)
        var left = try arguments.integer("limit", in: 0...Int(Int64.max))
        guard last == nil || left == nil else { throw UsageError("Give either --last or --limit.") }
        let connection = try DatabaseLocator.connection(arguments, console, "log")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        let range = try LogRange(from, to, connection, namespace)
        let isJSON = arguments.has("json")
        if let remark = range.remark ?? (isJSON ? nil : range.emptiness) { console.error(remark) }
        var table = EntryText.table(head: namespace.head, width: console.outputWidth)
        let show = { (entry: Entry) in
            if isJSON { return console.write(EntryText.json(entry)) }
            for line in table.lines(EntryText.cells(entry)) { console.write(line) }
        }
        // Without a path every entry read is also printed, which shows the progress.
        let progress = ReplayProgress(
            console, "log ls", "entries read", total: max(0, range.last - range.first + 1),
            isQuiet: isJSON || path == nil || !console.isTerminal)
        defer { progress.end() }
        if let last {
            let newest = try range.newest(last, touching: path) { progress.advance(to: $0) }
            progress.end()
            for entry in newest { show(entry) }
            return
        }
        left = left ?? 1_000
        try range.read { entry in
            guard let count = left, count > 0 else { return false }
            if LogOptions.touches(entry, path) {
                show(entry)
                left = count - 1
            }
            progress.advance(to: entry.seq - range.first + 1)
            return true
        }
    }
}

struct LogShowCommand: Command {
    static let specification = CommandSpecification(
        "log show", "shows all of one entry", positionals: ["SEQ|TIME"],
        options: [LogOptions.namespace, .json] + DatabaseLocator.options,
        notes: [
            "SEQ may be head for the newest. With a TIME, or an age (1h, 2d), it is the last entry committed by then."
        ])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let moment = try Self.moment(arguments.positionals[0])
        let connection = try DatabaseLocator.connection(arguments, console, "log")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        let seq = try Self.seq(moment, connection, namespace)
        guard seq > 0 else { throw CommandFailure("The log has no entry committed by then.") }
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
            by         \(OriginText.author(entry.origin))
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

extension LogShowCommand {
    private static func moment(_ text: String) throws -> SeqOrTime {
        do {
            let moment = try SeqOrTime(argument: text)
            guard moment != .seq(0) else { throw UsageError("the first entry has SEQ 1.") }
            return moment
        } catch let error as ReplayError {
            throw UsageError("SEQ|TIME: \(error)")
        }
    }

    /// Returns a given seq unchanged. A seq outside the log has its own message.
    private static func seq(
        _ moment: SeqOrTime, _ connection: LogConnection, _ namespace: NamespaceRecord
    ) throws -> Int64 {
        if case .seq(let seq) = moment { return seq }
        return try moment.seq(connection, namespace)
    }
}

struct LogTailCommand: Command {
    static let waitsForSignals = true
    static let specification = CommandSpecification(
        "log tail", "writes new entries as they are committed, until interrupted",
        options: [
            LogOptions.namespace,
            .init(
                "from", "SEQ|TIME",
                "begins with this seq instead of the next one, or after a time or an age (1h, 2d)"),
            .init("last", "N", "begins with the last N entries"), LogOptions.path, .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let from = try ReplayOptions.seqOrTime(arguments, "from")
        let last = try arguments.integer("last", in: 0...1_000_000)
        guard from == nil || last == nil else { throw UsageError("Give either --from or --last.") }
        let connection = try DatabaseLocator.connection(arguments, console, "log tail")
        defer { connection.close() }
        try connection.listen(to: [.commits])
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        let path = try arguments["path"].map(PathArgument.parse)
        var after = namespace.head
        switch from {
        case let moment?:
            let range = try LogRange(moment, nil, connection, namespace)
            after = range.first - 1
            if let remark = range.remark { console.error(remark) }
        case nil: break
        }
        // With a path, the last entries that touch it.
        if let last {
            let newest = try LogRange(nil, nil, connection, namespace).newest(last, touching: path)
            after = newest.first.map { $0.seq - 1 } ?? after
        }
        var table = EntryText.table(head: namespace.head, width: console.outputWidth)
        // The waits are short, because signals are checked between them.
        var log = LogFollower(namespace.id, at: LogPosition(seq: after)) { $0.pollMilliseconds = 100 }
        while true {
            switch try log.nextOrWait(on: connection) {
            case .entries(let page):
                for logged in page where LogOptions.touches(logged.entry, path) {
                    let lines =
                        arguments.has("json")
                        ? [EntryText.json(logged.entry)] : table.lines(EntryText.cells(logged.entry))
                    guard console.writeBytes(Array((lines.joined(separator: "\n") + "\n").utf8)) else {
                        // The reader has closed the pipe.
                        if console.readerIsGone { return }
                        throw CommandFailure(
                            "standard output can't be written: \(console.outputFailure ?? "unknown error").")
                    }
                }
            case .missing(let seqs, _): log.restart(at: LogPosition(seq: seqs.upperBound - 1))
            case .bulk, .rules, .rolledBack, .end: break
            case nil: if console.signals.isTerminationWanted(milliseconds: 0) { return }
            }
        }
    }
}
