import Crypto
import Postgres
import Tree

/// Applies entries of another log to a namespace. Each becomes an entry of the namespace, which its gateways, listeners
/// and mirrors follow like any other. The same transaction records the applied entries, so that none is applied twice,
/// regardless of how often and in which order files are given.
///
/// The tree is not loaded: the database changes its rows (`pathmirror.apply_change`). Memory holds one batch, or one
/// part.
public final class EntryApplier {
    /// The maximum number of entries in one transaction, which holds the head's lock.
    public var batchEntries = 200
    private static let batchBytes = 4 << 20

    public private(set) var appliedCount = 0
    /// The number of entries that had been applied before.
    public private(set) var knownCount = 0
    /// The number of entries without data, such as security rules.
    public private(set) var skippedCount = 0
    public private(set) var lastSeq: Int64 = 0

    private let connection: LogConnection
    private var destination: Destination
    private let isDryRun: Bool
    private let pace: (Int) throws -> Void

    private struct Waiting {
        let line: LogLine
        let head: LogLine.Head
        let changes: [Change]
    }
    private var waiting: [Waiting] = []
    private var waitingBytes = 0
    private var bulk: Bulk?

    /// A bulk entry whose parts are being read.
    private struct Bulk {
        let line: LogLine
        let head: LogLine.Head
        let changes: [Change]
        /// Nil if the entry is not to be applied.
        let seq: Int64?
        var parts = 0
        /// Paths that must be cleared and have received no values yet: see `BulkApplication`.
        var cleared: [Path] = []
        /// Whether the parts must be read again at the end, for changes that come last.
        var passes = PartPasses()
    }

    /// - Parameter pace: called with the number of entries of each batch, outside of transactions. It may block.
    public convenience init(
        _ connection: LogConnection, _ namespace: NamespaceRecord, isDryRun: Bool = false,
        pace: @escaping (Int) throws -> Void = { _ in }
    ) {
        self.init(connection, Destination(namespace), isDryRun, pace)
    }

    /// Applies entries to the namespace with this name. If the namespace does not exist, it is created together with
    /// the first entries.
    public convenience init(
        _ connection: LogConnection, named name: String, isDryRun: Bool = false,
        pace: @escaping (Int) throws -> Void = { _ in }
    ) throws(LogStoreError) {
        self.init(connection, try Destination(connection, named: name), isDryRun, pace)
    }

    private init(
        _ connection: LogConnection, _ destination: Destination, _ isDryRun: Bool,
        _ pace: @escaping (Int) throws -> Void
    ) {
        self.connection = connection
        self.destination = destination
        self.isDryRun = isDryRun
        self.pace = pace
    }

    /// Processes the file's next line. After an error no transaction is open.
    public func add(_ line: LogLine, number: Int, byteCount: Int) throws {
        do {
            try take(line, number, byteCount)
        } catch {
            abandon()
            throw error
        }
    }

    private func take(_ line: LogLine, _ number: Int, _ byteCount: Int) throws {
        if let bulk {
            guard line.source == bulk.line.source, line.seq == bulk.line.seq else {
                throw ReplayError.badLine(
                    number, reason: "entry \(bulk.line.seq) is incomplete: the file was truncated")
            }
            switch line.content {
            case .part(let changes): return try addPart(changes)
            case .end(let parts): return try endBulk(parts, number)
            case .entry, .bulk:
                throw ReplayError.badLine(number, reason: "entry \(bulk.line.seq) begins again before it is complete")
            }
        }
        switch line.content {
        case .entry(let head, let changes):
            guard !changes.isEmpty else {
                skippedCount += 1
                return
            }
            if let (ancestor, path) = Change.overlap(in: changes) {
                throw ReplayError.badLine(
                    number,
                    reason: "the line changes both \(ancestor) and its descendant \(path), which no entry can do")
            }
            waiting.append(Waiting(line: line, head: head, changes: ApplicationOrder.sorted(changes)))
            waitingBytes += byteCount
            if waiting.count >= batchEntries || waitingBytes >= Self.batchBytes { try flush() }
        case .bulk(let head, let changes):
            try flush()
            try beginBulk(line, head, changes)
        case .part, .end:
            throw ReplayError.badLine(
                number, reason: "the line is part of entry \(line.seq), whose first line is missing")
        }
    }

    /// Applies the remaining entries. After an error no transaction is open.
    public func finish() throws {
        if let bulk {
            abandon()
            throw ReplayError.badLine(0, reason: "the file ends within entry \(bulk.line.seq)")
        }
        do {
            try flush()
        } catch {
            abandon()
            throw error
        }
    }

    /// Rolls back the open transaction.
    public func abandon() {
        bulk = nil
        undo()
    }

    private func undo() {
        if connection.isOpen, connection.postgres.isInTransaction { connection.unlockHead() }
        destination.undone()
    }

    // MARK: Entries

    private func flush() throws {
        guard !waiting.isEmpty else { return }
        let batch = waiting
        waiting.removeAll()
        waitingBytes = 0
        // Each source is applied separately, because a file may have been concatenated from several.
        var start = 0
        while start < batch.count {
            var end = start
            while end < batch.count, batch[end].line.source == batch[start].line.source { end += 1 }
            try apply(Array(batch[start..<end]))
            start = end
        }
        try pace(batch.count)
    }

    private func apply(_ batch: [Waiting]) throws {
        guard let source = batch.first.map({ Self.hash($0.line.source) }) else { return }
        if isDryRun {
            let known = try known(source, batch.map(\.line.seq))
            return count(batch.filter { !known.contains($0.line.seq) }.count, of: batch.count)
        }
        let first = try begin()
        var seen = try known(source, batch.map(\.line.seq))
        var entries = EntryBatch()
        for item in batch where seen.insert(item.line.seq).inserted {
            entries.append(
                item.head, item.changes, origin: origin(item.line, item.head), sourceSeq: item.line.seq)
        }
        guard entries.count > 0 else {
            undo()
            return count(0, of: batch.count)
        }
        try connection.postgres.pipeline([
            .prepared(EntryBatch.append, entries.parameters(destination.id, from: first, source: source)),
            .query("commit"),
        ])
        destination.committed()
        lastSeq = first + entries.count - 1
        count(Int(entries.count), of: batch.count)
    }

    private func count(_ applied: Int, of all: Int) {
        appliedCount += applied
        knownCount += all - applied
    }

    /// Returns the origin of an applied entry: its author, and the entry of the other log.
    private func origin(_ line: LogLine, _ head: LogLine.Head) -> [UInt8] {
        var writer = JSONWriter(form: .export)
        let uid = head.origin.flatMap { RawJSON($0.json).members?.first { $0.key == "uid" }?.value }
        writer.beginObject()
        writer.writeKey("uid", isFirst: true)
        writer.append(uid?.text ?? Array("null".utf8))
        writer.writeKey("admin", isFirst: false)
        writer.write(.bool(true))
        writer.writeKey("via", isFirst: false)
        writer.writeString(Origin.Transport.cli.rawValue)
        writer.writeKey("replayed", isFirst: false)
        writer.beginObject()
        writer.writeKey("source", isFirst: true)
        writer.writeString(line.source)
        writer.writeKey("seq", isFirst: false)
        writer.writeInteger(line.seq)
        writer.writeKey("committedAt", isFirst: false)
        writer.writeString(head.committedAt)
        writer.endObject()
        writer.endObject()
        return writer.bytes
    }

    // MARK: Bulk entries

    private func beginBulk(_ line: LogLine, _ head: LogLine.Head, _ changes: [Change]) throws {
        let source = Self.hash(line.source)
        if isDryRun {
            let isKnown = try !known(source, [line.seq]).isEmpty
            count(isKnown ? 0 : 1, of: 1)
            bulk = Bulk(line: line, head: head, changes: changes, seq: nil)
            return
        }
        let seq = try begin()
        guard try known(source, [line.seq]).isEmpty else {
            undo()
            count(0, of: 1)
            bulk = Bulk(line: line, head: head, changes: changes, seq: nil)
            return
        }
        let removals = changes.filter { $0.step == .removals }
        for change in ApplicationOrder.sorted(changes) where change.step != .removals {
            try connection.apply(destination.id, seq, change)
        }
        bulk = Bulk(line: line, head: head, changes: changes, seq: seq, cleared: removals.map(\.path))
    }

    private func put(_ leaves: inout LeafRun, _ seq: Int64) throws {
        guard !leaves.isEmpty else { return }
        _ = try connection.postgres.execute(
            "select pathmirror.put_leaves($1, $2, $3, $4, $5)",
            [.int8(destination.id), .int8(seq), .array(leaves.branches), .array(leaves.paths), .array(leaves.values)])
        leaves = LeafRun()
    }

    private func addPart(_ changes: [Change]) throws {
        bulk?.parts += 1
        guard let parts = bulk?.parts, let seq = bulk?.seq else { return }
        var leaves = LeafRun()
        for change in ApplicationOrder.sorted(changes) {
            switch change.step {
            case .values:
                try makeRoom(for: change.path)
                if leaves.append(change) { continue }
                try put(&leaves, seq)
                if leaves.append(change) { continue }
                try connection.apply(destination.id, seq, change)
            case .priorities:
                // Priorities of leaves in this run are added to it. The others wait for the end.
                if !leaves.append(change) { _ = bulk?.passes.select([change]) }
            case .removals: _ = bulk?.passes.select([change])
            }
        }
        try put(&leaves, seq)
        _ = try connection.postgres.execute(
            "insert into pathmirror.log_part (namespace_id, seq, part, changes) values ($1, $2, $3, $4)",
            [.int8(destination.id), .int8(seq), .int4(Int32(parts - 1)), .json(ChangeCodec.encode(changes))])
    }

    private func makeRoom(for path: Path) throws {
        guard let cleared = bulk?.cleared, !cleared.isEmpty else { return }
        for ancestor in cleared where ancestor.contains(path) { try connection.clear(destination.id, ancestor) }
        bulk?.cleared.removeAll { $0.contains(path) }
    }

    /// Applies the changes that must wait until all values are stored: paths without values, removals and priorities.
    private func completeBulk(_ bulk: Bulk, _ seq: Int64) throws {
        for path in bulk.cleared { try connection.apply(destination.id, seq, Change(path: path, value: .null)) }
        var passes = bulk.passes
        while passes.beginNextPass() {
            for number in 0..<Int32(bulk.parts) {
                // The entry itself is not in the log yet.
                guard let part = try connection.storedPart(number, of: seq, destination.id) else {
                    throw LogStoreError.partMissing(seq: seq, part: number, count: Int32(bulk.parts))
                }
                for change in passes.select(part) { try connection.apply(destination.id, seq, change) }
            }
        }
    }

    private func endBulk(_ parts: Int, _ number: Int) throws {
        guard let bulk else { return }
        guard parts == bulk.parts else {
            throw ReplayError.badLine(
                number, reason: "entry \(bulk.line.seq) has \(bulk.parts) of its \(parts) parts: the file was changed")
        }
        self.bulk = nil
        guard let seq = bulk.seq else { return }
        try completeBulk(bulk, seq)
        try connection.postgres.pipeline(
            destination.stepsBeforeLogging(connection) + [
                .query(
                    "select pathmirror.finish_entry($1, $2, $3, $4, $5, $6, $7)",
                    [
                        .int8(destination.id), .int8(seq), .text(bulk.head.operation.rawValue),
                        .text(bulk.head.path.description), .json(ChangeCodec.encode(bulk.changes)), .int4(Int32(parts)),
                        .json(origin(bulk.line, bulk.head)),
                    ]),
                remember(Self.hash(bulk.line.source), bulk.line.seq, seq),
                .query("commit"),
            ])
        destination.committed()
        lastSeq = seq
        count(1, of: 1)
        try pace(1)
    }

    // MARK: The database

    /// Locks the head and returns the next seq.
    private func begin() throws -> Int64 {
        try destination.begin(connection) {
            try connection.postgres.pipeline([
                .query("begin"), .query("select pathmirror.begin_entry($1)", [.int8($0.id)]),
            ])[1].int64(0, 0) - 1
        } + 1
    }

    private func known(_ source: [UInt8], _ seqs: [Int64]) throws -> Set<Int64> {
        var wanted = PostgresArray(of: .int8)
        for seq in seqs { wanted.appendInt8(seq) }
        let rows = try connection.postgres.execute(
            """
            select source_seq from pathmirror.replay_applied
            where namespace_id = $1 and source = $2 and source_seq = any($3)
            """, [.int8(destination.id), .uuid(source), .array(wanted)])
        return Set(try (0..<rows.rowCount).map { try rows.int64($0, 0) })
    }

    private func remember(_ source: [UInt8], _ sourceSeq: Int64, _ seq: Int64) -> PipelineStep {
        .query(
            "insert into pathmirror.replay_applied (namespace_id, source, source_seq, seq) values ($1, $2, $3, $4)",
            [.int8(destination.id), .uuid(source), .int8(sourceSeq), .int8(seq)])
    }

    /// Returns 16 bytes that represent a source's name.
    private static func hash(_ source: String) -> [UInt8] { Array(Digest.sha256(Array(source.utf8)).prefix(16)) }
}
