public import Postgres
public import Runtime

/// A row of the table of namespaces.
public struct NamespaceRecord: Sendable, Equatable {
    public let id: Int64
    public let name: String
    public let head: Int64
    /// The oldest seq in the log, or `head + 1` if the log is empty.
    public let retainedFrom: Int64
    /// The key that signs the ids of stream events.
    public let streamKey: String
    public let following: Following
}

/// All SQL of schema `pathmirror`, over one connection. Belongs to one thread, which it blocks.
public final class LogConnection {
    public struct Settings: Sendable {
        public var connection = PostgresConnectionSettings()
        /// The number of entries per partition of the log.
        public var entriesPerPartition: Int64 = 1_000_000
        /// Batches that change more rows than this are written with COPY.
        public var copyThreshold = 2_000
        /// `synchronous_commit` of every connection, regardless of the setting of the role or the database. With less
        /// than `local`, an acknowledged commit can be lost.
        public var synchronousCommit = "on"

        public init() {}

        /// The connection's settings, including those that every connection has.
        ///
        /// The server probes a silent client, and gives up sending to a client that acknowledges nothing. The client's
        /// machine or network may be down, and other sessions wait for its locks.
        var fencedConnection: PostgresConnectionSettings {
            var connection = self.connection
            var fences = [
                "synchronous_commit": synchronousCommit, "tcp_keepalives_idle": "3", "tcp_keepalives_interval": "1",
                "tcp_keepalives_count": "3", "tcp_user_timeout": "6000",
            ]
            // A commit that reached no standby is reported only as a warning.
            fences["client_min_messages"] = "warning"
            connection.sessionSettings.merge(fences) { given, _ in given }
            return connection
        }
    }

    /// The channel on which commits are announced: `<namespace id> <head>`.
    public static let channel = "pathmirror"

    let postgres: PostgresConnection
    let settings: Settings
    /// The seq below which each namespace's log has partitions, as far as this connection knows.
    var partitionedTo = BoundedCache<Int64, Int64>()
    /// The ctid of each namespace's row when this connection last saw the row (see `pathmirror.move_head`).
    var headLocations = BoundedCache<Int64, [UInt8]>()
    /// The ctid of each feed's progress row when this connection last saw the row (see `pathmirror.move_feed`).
    var feedLocations: [Int64: [UInt8]] = [:]
    /// Whether the session has been set to the fastest compression that the server has.
    var hasChosenCompression = false
    /// The reused buffers in which batches are sent.
    var columns = CommitColumns()
    /// Batches in flight: sent and not received.
    var sent: [Batch] = []
    /// The names of the namespaces that have feeds, by id.
    var namespaceNames = BoundedCache<Int64, String>()
    /// The commit time of the last committed batch as recorded in the log, in milliseconds since 1970. Nil if unknown.
    public internal(set) var committedAt: Int64?

    /// Connects to the database. If the URL names several hosts, connects to the first that accepts writes.
    /// Does not check the schema: see `Migrations`.
    public init(_ url: PostgresURL, settings: Settings = Settings()) throws(LogStoreError) {
        self.settings = settings
        postgres = try translated { () throws(PostgresError) in
            try PostgresConnection(url.requiringPrimary, settings: settings.fencedConnection)
        }
    }

    /// The process id of the server process for this connection.
    public var backendPID: Int32 { postgres.backendPID }

    /// False once the connection is lost or closed.
    public var isOpen: Bool { postgres.isOpen }

    /// Closes the connection. The server rolls back an open transaction.
    public func close() { postgres.close() }

    /// A handle that closes the connection from another thread. A thread that waits for the connection stops waiting.
    public var cancelHandle: PostgresCancelHandle { postgres.cancelHandle }

    /// How long the server may stay silent during a statement before the connection counts as lost. 0 for no limit.
    public var statementTimeoutMilliseconds: Milliseconds {
        get { postgres.statementTimeoutMilliseconds }
        set { postgres.statementTimeoutMilliseconds = newValue }
    }

    /// The connection for SQL on tables outside schema `pathmirror`, such as mirrors' tables in this database. Its
    /// statements belong to the transaction that is open here.
    public var forOtherTables: PostgresConnection { postgres }

    // MARK: Namespaces

    /// Returns the namespace with this name, or nil if there is none and `creating` is false. Throws `misplaced` if the
    /// namespace can't be created because it lives in another database.
    public func namespace(named name: String, creating: Bool = false) throws(LogStoreError) -> NamespaceRecord? {
        if let record = try namespaces(where: "name = $1", [.text(name)]).first { return record }
        guard creating else { return nil }
        let made = try records(
            """
            insert into pathmirror.namespace (name) values ($1) on conflict (name) do nothing
            returning \(Self.recordColumns)
            """, [.text(name)])
        if let record = made.first { return record }
        // Another session has created it in the meantime.
        return try namespaces(where: "name = $1", [.text(name)]).first
    }

    /// Returns the namespace with this id, or nil if there is none.
    public func namespace(id: Int64) throws(LogStoreError) -> NamespaceRecord? {
        try namespaces(where: "id = $1", [.int8(id)]).first
    }

    /// Returns all namespaces, ordered by id. Leaves out names that begin with a dot, which are not served: dormant
    /// copies of namespaces that are being moved here, and namespaces put aside by hand.
    public func allNamespaces() throws(LogStoreError) -> [NamespaceRecord] {
        try namespaces(where: "name not like '.%' order by id", [])
    }

    private static let recordColumns =
        "id, name, head, retained_from, stream_key::text, partitioned_to, \(Following.column)"

    private func namespaces(
        where condition: String, _ parameters: PostgresParameters
    ) throws(LogStoreError) -> [NamespaceRecord] {
        try records("select \(Self.recordColumns) from pathmirror.namespace where \(condition)", parameters)
    }

    private func records(_ sql: String, _ parameters: PostgresParameters) throws(LogStoreError) -> [NamespaceRecord] {
        try mayBeMisplaced { () throws(PostgresError) in
            let rows = try postgres.execute(sql, parameters)
            var records: [NamespaceRecord] = []
            for row in 0..<rows.rowCount {
                let record = NamespaceRecord(
                    id: try rows.int64(row, 0), name: try rows.string(row, 1), head: try rows.int64(row, 2),
                    retainedFrom: try rows.int64(row, 3), streamKey: try rows.string(row, 4),
                    following: try Following(rows, row, 6))
                notePartitions(record.id, to: try rows.int64(row, 5))
                records.append(record)
            }
            return records
        }
    }
}

extension LogConnection {
    /// The extra time for statements of a large batch, during which the server works without sending anything: for each
    /// mebibyte, and for a thousand rows.
    private static let millisecondsPerMebibyte: Milliseconds = 500
    private static let millisecondsPerThousandRows: Milliseconds = 100
    /// How long reading a tree or a part of it may take until the first row arrives. The server may have to sort the
    /// rows.
    private static let readingMilliseconds: Milliseconds = 60_000

    /// Extends the statement timeout for a batch. Returns the previous timeout, which the caller restores.
    func bePatient(with batch: Batch) -> Milliseconds {
        bePatient(withBytes: batch.records.reduce(0) { $0 + $1.changes.count }, rows: batch.rows.count)
    }

    func bePatient(withBytes bytes: Int, rows: Int = 0) -> Milliseconds {
        let usual = postgres.statementTimeoutMilliseconds
        guard usual > 0 else { return usual }
        postgres.statementTimeoutMilliseconds =
            usual + Milliseconds(bytes / (1 << 20)) * Self.millisecondsPerMebibyte
            + Milliseconds(rows / 1_000) * Self.millisecondsPerThousandRows
        return usual
    }

    /// Runs `body`, which reads many rows, with a longer statement timeout, because the server may be silent before the
    /// first row.
    func readingPatiently<Result>(_ body: () throws -> Result) rethrows -> Result {
        let usual = postgres.statementTimeoutMilliseconds
        if usual > 0 { postgres.statementTimeoutMilliseconds = max(usual, Self.readingMilliseconds) }
        defer { postgres.statementTimeoutMilliseconds = usual }
        return try body()
    }
}

/// A cache with a limit on the number of values. When it is full, it forgets all of them.
/// Only for values that can be determined again.
struct BoundedCache<Key: Hashable, Value> {
    private var values: [Key: Value] = [:]
    /// The maximum number of values. A gateway may meet hundreds of thousands of namespaces on each of its connections.
    static var capacity: Int { 16_384 }

    subscript(key: Key) -> Value? {
        get { values[key] }
        set {
            if newValue != nil, values.count >= Self.capacity, values[key] == nil { values.removeAll() }
            values[key] = newValue
        }
    }

    subscript(key: Key, default standard: @autoclosure () -> Value) -> Value { values[key] ?? standard() }
}
