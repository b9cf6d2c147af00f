import Postgres
public import Tree

/// Loads rows into a namespace in bounded memory, either in one transaction and one log entry, or in chunks that are
/// each a transaction and an entry.
///
/// The rows of an entry are also its log parts, so that other gateways and `verify` can replay them. Writers of the
/// namespace wait while a transaction is open, because it holds the head's lock.
public final class Importer {
    public struct Settings: Sendable {
        /// The number of rows per transaction, or nil for all.
        public var rowsPerChunk: Int?
        /// The number of bytes of rows to buffer before they are sent.
        public var bufferBytes = 1 << 20
        /// Whether the rows replace the nodes at the path. Otherwise no node may exist at the rows' paths.
        public var replaces = true

        public init() {}

        /// An empty pack with the size that is sent at once.
        public var batch: RowBatch { RowBatch(bytes: bufferBytes, rows: rowsPerChunk) }
    }

    private let connection: LogConnection
    private var destination: Destination
    private let path: Path
    private let settings: Settings
    /// Identifies the source for a restart. Nil if the import can't be restarted.
    private let fingerprint: String?

    /// The head at which the caller decided to load. If a later entry wrote at, above or below the path, nothing is loaded.
    public var plannedHead: Int64?
    /// The paths of the rows, if they are known. Then only later entries that wrote at, above or below these paths end the
    /// import, instead of those at the path of the import. Requires `Settings.replaces` to be false.
    public var watched: PathSet?
    /// The origin of the entries.
    public var origin = Origin(uid: nil, isAdmin: true, via: .cli, address: nil)

    private var seq: Int64 = 0
    private var isOpen = false
    private var part: Int32 = 0
    /// Rows added one by one and not sent yet.
    private var collected: RowBatch
    private var rowsInChunk = 0
    private var rowsToSkip = 0
    /// The number of rows added, including those of an earlier run.
    public private(set) var rowsDone = 0
    /// The seq of the last committed entry.
    public private(set) var lastSeq: Int64 = 0
    /// The entries that this run committed.
    public private(set) var entryCount = 0
    /// The number of committed rows, including those of an earlier run.
    public private(set) var rowsKept = 0
    /// The number of rows that an earlier, interrupted run has committed.
    public private(set) var resumedRows = 0

    public convenience init(
        _ connection: LogConnection, _ namespace: NamespaceRecord, at path: Path, settings: Settings = Settings(),
        fingerprint: String? = nil
    ) throws(LogStoreError) {
        try self.init(connection, Destination(namespace), path, settings, fingerprint)
    }

    /// Imports into the namespace with this name. If the namespace does not exist, it is created together with the
    /// first rows.
    public convenience init(
        _ connection: LogConnection, named name: String, at path: Path, settings: Settings = Settings(),
        fingerprint: String? = nil
    ) throws(LogStoreError) {
        try self.init(connection, try Destination(connection, named: name), path, settings, fingerprint)
    }

    private init(
        _ connection: LogConnection, _ destination: Destination, _ path: Path, _ settings: Settings,
        _ fingerprint: String?
    ) throws(LogStoreError) {
        self.connection = connection
        self.destination = destination
        self.path = path
        self.settings = settings
        collected = settings.batch
        self.fingerprint = settings.rowsPerChunk == nil ? nil : fingerprint
        do {
            rowsToSkip = try savedProgress()
            resumedRows = rowsToSkip
            rowsKept = rowsToSkip
        } catch {
            throw LogStoreError(error)
        }
    }

    /// Adds the next row, in the order of the source.
    public func add(_ path: [UInt8], _ value: Node) throws(LogStoreError) {
        rowsDone += 1
        if rowsDone <= rowsToSkip { return }
        try whole { () throws in
            if !isOpen { try begin() }
            collected.append(path, value)
            rowsInChunk += 1
            if collected.isFull { try sendCollected() }
            if rowsInChunk == settings.rowsPerChunk { try commit() }
        }
    }

    /// Adds the next rows, in the order of the source. Must not be combined with adding single rows.
    public func add(_ batch: RowBatch) throws(LogStoreError) {
        var next = min(max(0, rowsToSkip - rowsDone), batch.count)
        rowsDone += next
        try whole { () throws in
            while next < batch.count {
                if !isOpen { try begin() }
                let count = min(batch.count - next, (settings.rowsPerChunk ?? .max) - rowsInChunk)
                try send(batch, next..<next + count)
                next += count
                rowsDone += count
                rowsInChunk += count
                if rowsInChunk == settings.rowsPerChunk { try commit() }
            }
        }
    }

    /// Runs `body`. On an error, rolls back the open transaction.
    private func whole(_ body: () throws -> Void) throws(LogStoreError) {
        do {
            try body()
        } catch {
            abandon()
            try? forgetProgress(after: error)
            throw Self.named(error)
        }
    }

    private func forgetProgress(after error: any Error) throws {
        if error is ImportConflict, fingerprint != nil { try forgetProgress() }
    }

    private static func named(_ error: any Error) -> LogStoreError {
        if let conflict = error as? ImportConflict { return .importConflict("\(conflict)") }
        return LogStoreError(error)
    }

    /// Commits the remaining rows. Then everything is visible.
    public func finish() throws(LogStoreError) {
        try whole { () throws in
            // Importing an empty export removes the existing data.
            if rowsDone == 0 { try begin(isEmpty: true) }
            if isOpen { try commit() }
            if fingerprint != nil { try forgetProgress() }
        }
    }

    /// Rolls back the open transaction, even if it failed while it was being opened.
    public func abandon() {
        if connection.isOpen, connection.postgres.isInTransaction { connection.unlockHead() }
        destination.undone()
        isOpen = false
    }

    /// The head of the namespace when the import began, or 0 if there was no namespace.
    public var headBefore: Int64 { destination.record?.head ?? 0 }

    // MARK: One transaction

    /// - Parameter isEmpty: whether no rows follow.
    private func begin(isEmpty: Bool = false) throws {
        try connection.chooseCompression()
        let head = try destination.begin(connection) { try connection.lockHead($0.id, expectedHead: $0.head) }
        // The commit would be refused, after all rows were sent.
        if try connection.following(destination.id) != .nothing { throw LogStoreError.followsUpstream }
        if let last = lastSeq > 0 ? lastSeq : plannedHead { try refuseOthersWrites(after: last, through: head) }
        seq = head + 1
        part = 0
        rowsInChunk = 0
        isOpen = true
        // The first chunk replaces the value, and the others add to it. An import without rows is a removal.
        guard isFirst, settings.replaces else { return }
        if isEmpty {
            try connection.apply(destination.id, seq, Change(path: path, value: .null))
        } else {
            try connection.clear(destination.id, path)
        }
    }

    /// Throws if another writer has written to the rows' paths between the plan and the first chunk, or between chunks: such
    /// writes would be removed, or block the rows. Writes to other paths are allowed.
    private func refuseOthersWrites(after last: Int64, through head: Int64) throws {
        let isBeforeLoading = lastSeq == 0
        var follower = LogFollower(destination.id, at: LogPosition(seq: last), through: head)
        while follower.position.seq < head {
            guard case .entries(let page) = try follower.next(on: connection) else {
                throw ImportConflict(
                    path: path, seq: follower.position.seq + 1, isBeforeLoading: isBeforeLoading,
                    replaces: settings.replaces)
            }
            for entry in page.map(\.entry) {
                // The parts of a bulk entry are not read: all of them are at or below its path.
                guard !entry.changes.contains(where: { touches($0.path) }), !entry.isBulk || !touches(entry.path) else {
                    throw ImportConflict(
                        path: path, seq: entry.seq, isBeforeLoading: isBeforeLoading, replaces: settings.replaces)
                }
            }
        }
    }

    /// Whether a write at a path affects the rows of this import.
    private func touches(_ other: Path) -> Bool {
        watched?.touches(other) ?? (other.contains(path) || path.contains(other))
    }

    /// Whether no chunk has been committed yet, in this or an earlier run.
    private var isFirst: Bool { rowsKept == 0 }

    private func sendCollected() throws {
        try send(collected, 0..<collected.count)
        collected.removeAll()
    }

    /// Sends rows to the tree with COPY, and to the log as a part.
    private func send(_ batch: RowBatch, _ rows: Range<Int>) throws {
        guard !rows.isEmpty else { return }
        let (namespace, version) = (destination.id, seq)
        try connection.postgres.copyIn(RowCopy.sql) { writer in
            try batch.forEach(rows) { (path, value) throws(PostgresError) in
                try RowCopy.write(namespace, path, value, version, to: &writer)
            }
        }
        var parameters = PostgresParameters()
        parameters.appendInt8(destination.id)
        parameters.appendInt8(seq)
        parameters.appendInt4(part)
        parameters.appendJSON(Self.logPart(batch, rows))
        _ = try connection.postgres.execute(
            "insert into pathmirror.log_part (namespace_id, seq, part, changes) values ($1, $2, $3, $4)", parameters)
        part += 1
    }

    private static func logPart(_ batch: RowBatch, _ rows: Range<Int>) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(batch.bytes.count + rows.count * 6)
        var keys = JSONWriter(form: .export)
        var isFirst = true
        batch.forEach(rows) { path, value in
            text.append(isFirst ? UInt8(ascii: "{") : UInt8(ascii: ","))
            isFirst = false
            keys.removeAll()
            keys.writeString(utf8: path)
            text.append(contentsOf: keys.bytes)
            text.append(UInt8(ascii: ":"))
            text.append(contentsOf: value)
        }
        text.append(UInt8(ascii: "}"))
        return text
    }

    private func commit() throws {
        try sendCollected()
        let clears = isFirst && settings.replaces
        let changes = clears ? ChangeCodec.encode([Change(path: path, value: .null)]) : Array("{}".utf8)
        var entry = PostgresParameters()
        entry.appendInt8(destination.id)
        entry.appendInt8(seq)
        let batch = Batch.makeID()
        entry.appendUUID(batch)
        entry.appendText(path.description)
        entry.appendJSON(changes)
        entry.appendInt4(part)
        entry.appendJSON(origin.json)
        var steps = destination.stepsBeforeLogging(connection)
        steps += [
            .query(
                """
                insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, parts, origin)
                select $1, $2, head.stamp, $3, 'import', $4, $5, $6, $7
                from pathmirror.move_head($1, $2 - 1, 1, null, $3, null) as head
                """, entry),
            .query("select pg_notify('pathmirror', $1)", [.text("\(destination.id) \(seq)")]),
        ]
        if let fingerprint {
            steps.append(
                .query(
                    """
                    insert into pathmirror.import_progress (namespace_id, path_hash, fingerprint, rows_done, last_seq)
                    values ($1, $2, $3, $4, $5) on conflict (namespace_id, path_hash) do update set
                    fingerprint = excluded.fingerprint, rows_done = excluded.rows_done, last_seq = excluded.last_seq
                    """,
                    [
                        .int8(destination.id), .text(pathHash), .text(fingerprint), .int8(Int64(rowsDone)), .int8(seq),
                    ]))
        }
        steps.append(.query("commit"))
        try connection.postgres.pipeline(steps)
        destination.committed()
        isOpen = false
        lastSeq = seq
        entryCount += 1
        rowsKept = rowsDone
    }

    // MARK: Restart

    private var pathHash: String { String(decoding: StoredPath.hash(Array(path.description.utf8)), as: UTF8.self) }

    private func savedProgress() throws -> Int {
        guard let fingerprint else { return 0 }
        let rows = try connection.postgres.execute(
            """
            select rows_done, last_seq from pathmirror.import_progress
            where namespace_id = $1 and path_hash = $2 and fingerprint = $3
            """, [.int8(destination.id), .text(pathHash), .text(fingerprint)])
        guard rows.rowCount == 1 else { return 0 }
        lastSeq = try rows.int64(0, 1)
        return Int(try rows.int64(0, 0))
    }

    /// Removes the progress of an interrupted import, so that it starts from the beginning next time.
    private func forgetProgress() throws {
        _ = try connection.postgres.execute(
            "delete from pathmirror.import_progress where namespace_id = $1 and path_hash = $2",
            [.int8(destination.id), .text(pathHash)])
    }
}

/// Another writer wrote where an import was loading, or after it was planned.
private struct ImportConflict: Error, CustomStringConvertible {
    let path: Path
    let seq: Int64
    /// Whether nothing was loaded yet.
    let isBeforeLoading: Bool
    /// Whether the import replaces the data at the path.
    let replaces: Bool

    var description: String {
        if isBeforeLoading {
            return "Entry \(seq) changed data at, above or below \(path) after the plan was made. "
                + "Nothing was changed. Run the command again to see a new plan."
        }
        guard replaces else {
            return "Entry \(seq) changed data at, above or below \(path) while missing nodes were restored there. "
                + "The restored nodes stay. Run the same command again to restore the rest."
        }
        return "Entry \(seq) changed data at, above or below \(path) while the import was loading there. "
            + "The loaded data stays. Run the import again: it begins from the start and replaces this data."
    }
}
