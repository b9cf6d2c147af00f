public import Postgres
public import Runtime

/// A namespace as the database knows it.
public struct NamespaceRecord: Sendable, Equatable {
    public let id: Int64
    public let name: String
    public let head: Int64
    /// The oldest seq still in the log; `head + 1` when the log is empty.
    public let retainedFrom: Int64
    /// What the ids of stream events are signed with.
    public let streamKey: String
}

/// All SQL of schema `pathmirror`, over one connection. Belongs to one thread, which it blocks.
public final class LogConnection {
    public struct Settings: Sendable {
        public var connection = ConnectionSettings()
        /// Entries in one partition of the log.
        public var entriesPerPartition: Int64 = 1_000_000
        /// Batches that change more rows than this go in by COPY.
        public var copyThreshold = 2_000
        /// `synchronous_commit` of every connection, whatever the role's or the database's is: with less than `local` a commit
        /// that was acknowledged can be lost.
        public var synchronousCommit = "on"

        public init() {}

        /// The connection's settings, with what every connection has.
        ///
        /// The server asks whether a silent client is still there, and gives up sending to one that takes nothing: its
        /// machine, or the way to it, may be gone, and the locks that it holds keep everybody else waiting.
        var fencedConnection: ConnectionSettings {
            var connection = self.connection
            var fences = [
                "synchronous_commit": synchronousCommit, "tcp_keepalives_idle": "3", "tcp_keepalives_interval": "1",
                "tcp_keepalives_count": "3", "tcp_user_timeout": "6000",
            ]
            // Without warnings nobody would hear of a commit that no standby has.
            fences["client_min_messages"] = "warning"
            connection.sessionSettings.merge(fences) { given, _ in given }
            return connection
        }
    }

    /// The channel on which commits are announced: `<namespace id> <head>`.
    public static let channel = "pathmirror"

    let postgres: PostgresConnection
    let settings: Settings
    /// Below which seq each namespace's log has tables to go to, as far as this connection knows.
    var partitionedTo = BoundedCache<Int64, Int64>()
    /// Where each namespace's row was when this connection saw it last (see `pathmirror.move_head`).
    var places = BoundedCache<Int64, [UInt8]>()
    /// The same of feeds' rows (see `pathmirror.move_feed`).
    var feedPlaces: [Int64: [UInt8]] = [:]
    /// The server has been asked to pack long values by the quickest way that it has.
    var hasChosenPacking = false
    /// What batches are sent in.
    var columns = CommitColumns()
    /// Batches that were sent and not received.
    var sent: [Batch] = []
    /// The names of the namespaces that have feeds, by their ids.
    var namespaceNames = BoundedCache<Int64, String>()
    /// When the batch that was committed last was, as the log says; nil where that is not known. In milliseconds since 1970.
    public internal(set) var committedAt: Int64?

    /// Connects; where the URL names several hosts, to the first that takes writes. Does not look at the schema: see
    /// `Migrations`.
    public init(_ url: PostgresURL, settings: Settings = Settings()) throws(LogStoreError) {
        self.settings = settings
        postgres = try translated { () throws(PostgresError) in
            try PostgresConnection(url.requiringPrimary, settings: settings.fencedConnection)
        }
    }

    /// The process of the server that serves this connection.
    public var backendPID: Int32 { postgres.backendPID }

    /// False once the connection is lost or closed.
    public var isOpen: Bool { postgres.isOpen }

    /// Ends the connection. What was open on it is rolled back by the server.
    public func close() { postgres.close() }

    /// Ends the connection from another thread: whoever waits for it stops waiting.
    public var cancelHandle: PostgresCancelHandle { postgres.cancelHandle }

    /// How long a statement may take until the connection counts as lost; 0 for ever.
    public var statementTimeoutMilliseconds: Milliseconds {
        get { postgres.statementTimeoutMilliseconds }
        set { postgres.statementTimeoutMilliseconds = newValue }
    }

    /// The same connection for SQL on tables that are not of schema `pathmirror`, such as mirrors' tables in the same database.
    /// What is done by it belongs to the transaction that is open here.
    public var forOtherTables: PostgresConnection { postgres }

    // MARK: Namespaces

    /// The namespace of that name; made if it isn't there and `creating` says so. Throws `misplaced` where it can't be made, as it
    /// lives in another database.
    public func namespace(named name: String, creating: Bool = false) throws(LogStoreError) -> NamespaceRecord? {
        if let record = try namespaces(where: "name = $1", [.text(name)]).first { return record }
        guard creating else { return nil }
        let made = try records(
            """
            insert into pathmirror.namespace (name) values ($1) on conflict (name) do nothing
            returning \(Self.recordColumns)
            """, [.text(name)])
        if let record = made.first { return record }
        // Somebody else has made it meanwhile.
        return try namespaces(where: "name = $1", [.text(name)]).first
    }

    /// The namespace of that id; nil where there is none.
    public func namespace(id: Int64) throws(LogStoreError) -> NamespaceRecord? {
        try namespaces(where: "id = $1", [.int8(id)]).first
    }

    /// All namespaces, in the order in which they were made; those whose names begin with a dot are nobody's: dormant
    /// copies of such as are being moved here, and what was put aside by hand.
    public func allNamespaces() throws(LogStoreError) -> [NamespaceRecord] {
        try namespaces(where: "name not like '.%' order by id", [])
    }

    private static let recordColumns = "id, name, head, retained_from, stream_key::text, partitioned_to"

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
                    retainedFrom: try rows.int64(row, 3), streamKey: try rows.string(row, 4))
                notePartitions(record.id, to: try rows.int64(row, 5))
                records.append(record)
            }
            return records
        }
    }
}

extension LogConnection {
    /// Statements of a large batch keep the server silently at work for longer than others: this much is allowed for each
    /// mebibyte of it, and for a thousand rows.
    private static let millisecondsPerMebibyte: Milliseconds = 500
    private static let millisecondsPerThousandRows: Milliseconds = 100
    /// What reading a tree, or a part of it, may take until the first row comes: it may have to be sorted.
    private static let readingMilliseconds: Milliseconds = 60_000

    /// Lets the connection wait for as long as this batch may take. Returns what it waited before, to be set again.
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

    /// Runs what reads much, and may keep the server silent until it begins to answer.
    func readingPatiently<Result>(_ body: () throws -> Result) rethrows -> Result {
        let usual = postgres.statementTimeoutMilliseconds
        if usual > 0 { postgres.statementTimeoutMilliseconds = max(usual, Self.readingMilliseconds) }
        defer { postgres.statementTimeoutMilliseconds = usual }
        return try body()
    }
}

/// What a connection remembers, as long as it is not too much; then it forgets all of it and begins again. Only for what can be
/// found out anew.
struct BoundedCache<Key: Hashable, Value> {
    private var values: [Key: Value] = [:]
    /// The most values: a gateway may meet hundreds of thousands of namespaces, on each of its connections.
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
