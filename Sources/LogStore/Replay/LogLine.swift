import Postgres
public import Tree

/// One line of a file of entries: an entry, or a piece of a bulk entry. A bulk entry consists of a line with
/// `"bulk":true`, a line for each part of its changes, and a line with the number of parts, so that a truncated file is
/// detected.
public struct LogLine: Sendable, Equatable {
    public enum Content: Sendable, Equatable {
        case entry(Head, [Change])
        /// The changes that a bulk entry makes first. Its parts follow.
        case bulk(Head, [Change])
        case part([Change])
        case end(parts: Int)
    }

    public struct Head: Sendable, Equatable {
        public let operation: Tree.Operation
        public let path: Path
        /// The commit time in ISO 8601, with milliseconds.
        public let committedAt: String
        public let origin: Origin?

        public init(operation: Tree.Operation, path: Path, committedAt: String, origin: Origin?) {
            self.operation = operation
            self.path = path
            self.committedAt = committedAt
            self.origin = origin
        }
    }

    /// Identifies the log, and the path to which it was narrowed. Unique to each log.
    public let source: String
    public let seq: Int64
    public let content: Content

    public init(source: String, seq: Int64, content: Content) {
        self.source = source
        self.seq = seq
        self.content = content
    }

    /// The line without its terminator.
    public var json: [UInt8] {
        var writer = JSONWriter(form: .export)
        writer.beginObject()
        writer.writeKey("source", isFirst: true)
        writer.writeString(source)
        writer.writeKey("seq", isFirst: false)
        writer.writeInteger(seq)
        switch content {
        case .entry(let head, let changes), .bulk(let head, let changes):
            writer.writeKey("committedAt", isFirst: false)
            writer.writeString(head.committedAt)
            writer.writeKey("op", isFirst: false)
            writer.writeString(head.operation.rawValue)
            writer.writeKey("path", isFirst: false)
            writer.writeString(head.path.description)
            writer.writeKey("origin", isFirst: false)
            writer.append(head.origin?.json ?? Array("null".utf8))
            if case .bulk = content {
                writer.writeKey("bulk", isFirst: false)
                writer.write(.bool(true))
            }
            writer.writeKey("changes", isFirst: false)
            writer.append(ChangeCodec.encode(changes))
        case .part(let changes):
            writer.writeKey("changes", isFirst: false)
            writer.append(ChangeCodec.encode(changes))
        case .end(let parts):
            writer.writeKey("parts", isFirst: false)
            writer.writeInteger(Int64(parts))
        }
        writer.endObject()
        return writer.bytes
    }

    /// - Parameter number: the number of the line, for errors.
    public init(_ text: [UInt8], number: Int) throws(ReplayError) {
        guard let members = RawJSON(text).members else {
            throw .badLine(number, reason: "the line is not a JSON object")
        }
        var found: [String: RawJSON] = [:]
        for (key, value) in members { found[key] = value }
        guard let source = found["source"]?.string, let seq = found["seq"]?.integer, seq > 0 else {
            throw .badLine(number, reason: "the line has no \"source\" and \"seq\", so 'replay log' did not write it")
        }
        self.source = source
        self.seq = seq
        if let parts = found["parts"]?.integer {
            content = .end(parts: Int(parts))
            return
        }
        let changes: [Change]
        do throws(JSONError) {
            changes = try ChangeCodec.decode(found["changes"]?.text ?? [])
        } catch {
            throw .badLine(number, reason: "the line's changes can't be read: \(error)")
        }
        guard let name = found["op"]?.string else {
            content = .part(changes)
            return
        }
        guard let operation = Tree.Operation(rawValue: name) else {
            throw .badLine(number, reason: "\"\(name)\" is not an operation")
        }
        let origin = found["origin"].flatMap { $0.isNull ? nil : Origin(json: $0.text) }
        let head = Head(
            operation: operation, path: Path(splitting: found["path"]?.string ?? "/"),
            committedAt: found["committedAt"]?.string ?? "", origin: origin)
        content = found["bulk"]?.bool == true ? .bulk(head, changes) : .entry(head, changes)
    }
}

/// Creates the lines of a log's entries, optionally narrowed to one path.
public struct LogLineMaker: Sendable {
    /// The name of the log in the lines.
    public let source: String
    private let path: Path?
    private let hasOrigins: Bool

    /// - Parameters:
    ///   - installation: the id that distinguishes the database from others.
    ///   - path: the path to which entries are narrowed, or nil for everything.
    ///   - hasOrigins: whether lines contain the author of the entry.
    public init(installation: String, namespace: String, within path: Path? = nil, hasOrigins: Bool = true) {
        self.path = path.flatMap { $0.isRoot ? nil : $0 }
        self.hasOrigins = hasOrigins
        source = "\(installation)/\(namespace)" + (self.path?.description ?? "")
    }

    /// Returns the line of an entry, or the first line of a bulk entry. Returns nil if the entry does not affect the
    /// path.
    ///
    /// - Parameter time: the commit time as text.
    public func line(of entry: Entry, time: String) -> LogLine? {
        let changes = narrowed(entry.changes)
        let head = LogLine.Head(
            operation: entry.operation, path: entry.path, committedAt: time, origin: hasOrigins ? entry.origin : nil)
        guard entry.isBulk else {
            guard !changes.isEmpty || path == nil else { return nil }
            return LogLine(source: source, seq: entry.seq, content: .entry(head, changes))
        }
        guard path.map({ $0.contains(entry.path) || entry.path.contains($0) }) ?? true else { return nil }
        return LogLine(source: source, seq: entry.seq, content: .bulk(head, changes))
    }

    /// Returns the line of a bulk entry's part, or nil if the part does not affect the path.
    public func line(ofPart changes: [Change], of seq: Int64) -> LogLine? {
        let changes = narrowed(changes)
        return changes.isEmpty ? nil : LogLine(source: source, seq: seq, content: .part(changes))
    }

    /// Returns the last line of a bulk entry, after `parts` lines of parts.
    public func end(of seq: Int64, parts: Int) -> LogLine {
        LogLine(source: source, seq: seq, content: .end(parts: parts))
    }

    private func narrowed(_ changes: [Change]) -> [Change] {
        guard let path else { return changes }
        return changes.compactMap { $0.narrowed(to: path) }
    }
}

/// Writes the entries of a log as lines.
public struct LogLines {
    private let connection: LogConnection
    private let namespace: NamespaceRecord
    private let lines: LogLineMaker

    /// - Parameter path: the path to which entries are narrowed, or nil for everything.
    public init(_ connection: LogConnection, _ namespace: NamespaceRecord, within path: Path? = nil) throws {
        self.connection = connection
        self.namespace = namespace
        lines = LogLineMaker(installation: try connection.installation(), namespace: namespace.name, within: path)
    }

    public var source: String { lines.source }

    /// Calls `body` with each line of the entries from `first` to `last`, and `progress` after each page.
    public func run(
        from first: Int64, to last: Int64, pageLimit: Int = 1_000, time: (Int64) -> String,
        progress: (Int64) throws -> Void = { _ in }, _ body: (LogLine) throws -> Void
    ) throws {
        var after = max(first, 1) - 1
        var follower = LogFollower(namespace.id, at: LogPosition(seq: after), through: last) {
            $0.pageEntries = pageLimit
        }
        while after < last {
            guard case .entries(let page) = try follower.next(on: connection) else {
                throw ReplayError.pruned(seq: after + 1)
            }
            for logged in page {
                try write(logged.entry, time, body)
                after = logged.entry.seq
            }
            try progress(after)
        }
    }

    private func write(_ entry: Entry, _ time: (Int64) -> String, _ body: (LogLine) throws -> Void) throws {
        guard let line = lines.line(of: entry, time: time(entry.committedAt)) else { return }
        try body(line)
        guard entry.isBulk else { return }
        var count = 0
        var failure: (any Error)?
        try connection.forEachPart(namespace.id, of: entry.seq) { (part) throws(LogStoreError) in
            guard failure == nil, let line = lines.line(ofPart: part, of: entry.seq) else { return }
            count += 1
            do {
                try body(line)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        try body(lines.end(of: entry.seq, parts: count))
    }
}
