import Postgres
import Tree

/// The namespace into which data is loaded. If it does not exist, the transaction that loads the data creates it, so a
/// load that fails or is interrupted leaves no namespace.
struct Destination {
    let name: String
    /// Nil while there is no namespace, or while the transaction that creates it has not committed and it is in `made`.
    private(set) var record: NamespaceRecord?
    /// The namespace that the open transaction creates.
    private var made: NamespaceRecord?

    init(_ record: NamespaceRecord) {
        name = record.name
        self.record = record
    }

    init(_ connection: LogConnection, named name: String) throws(LogStoreError) {
        self.name = name
        record = try connection.namespace(named: name)
    }

    /// The namespace's id, or 0, which is not a valid id, while there is none.
    var id: Int64 { (made ?? record)?.id ?? 0 }

    /// Begins a transaction that holds the head's lock, and returns the head.
    ///
    /// - Parameter lock: begins the transaction and locks the head of an existing namespace.
    mutating func begin(_ connection: LogConnection, _ lock: (NamespaceRecord) throws -> Int64) throws -> Int64 {
        if record == nil {
            if try make(connection) { return 0 }
            record = try connection.namespace(named: name)
        }
        guard let record else { throw LogStoreError.unknownNamespace(name) }
        return try lock(record)
    }

    /// Begins a transaction and creates the namespace. Returns false, without an open transaction, if another session
    /// has created it in the meantime.
    private mutating func make(_ connection: LogConnection) throws -> Bool {
        try connection.postgres.executeScript("begin")
        let isMade = try connection.mayBeMisplaced { () throws(PostgresError) in
            try connection.postgres.execute(
                "insert into pathmirror.namespace (name) values ($1) on conflict (name) do nothing", [.text(name)]
            ).affectedRows == 1
        }
        guard isMade else {
            connection.unlockHead()
            return false
        }
        made = try connection.namespace(named: name)
        return true
    }

    /// Returns the steps to execute before an entry is added. They create the log's partition at the end of the
    /// transaction, because creating one blocks other sessions from creating theirs.
    func stepsBeforeLogging(_ connection: LogConnection) -> [PipelineStep] {
        guard let made else { return [] }
        return [
            .query(
                "select pathmirror.ensure_log_partition($1, 1, $2)",
                [.int8(made.id), .int8(connection.settings.entriesPerPartition)])
        ]
    }

    /// Reports that the transaction has committed.
    mutating func committed() {
        record = made ?? record
        made = nil
    }

    /// Reports that the transaction was rolled back.
    mutating func undone() { made = nil }
}

extension LogConnection {
    /// Removes the rows at and below a path, and the leaves above it, which become branches because data will be
    /// written there.
    func clear(_ namespace: Int64, _ path: Path) throws {
        let text = path.description
        var gone = PostgresArray(of: .text)
        for depth in 0...path.depth {
            gone.appendText(StoredPath(Array(path.prefix(depth).description.utf8)).key)
        }
        let priority = path.isRoot ? "/.priority" : text + "/.priority"
        gone.appendText(StoredPath(Array(priority.utf8)).key)
        _ = try postgres.execute(
            "delete from pathmirror.node where namespace_id = $1 and path = any($2)",
            [.int8(namespace), .array(gone)])
        let below = path.isRoot ? "/" : text + "/"
        if below.utf8.count <= StoredPath.maxPlainBytes {
            _ = try postgres.execute(
                "delete from pathmirror.node where namespace_id = $1 and path >= $2 and path < $3",
                [.int8(namespace), .text(below), .text(String(below.dropLast()) + "0")])
        } else {
            _ = try postgres.execute(
                """
                delete from pathmirror.node where namespace_id = $1
                and rest is not null and starts_with(pathmirror.full_path(path, rest), $2)
                """, [.int8(namespace), .text(below)])
        }
    }

    /// Applies one change to the rows, as writing an entry does.
    func apply(_ namespace: Int64, _ seq: Int64, _ change: Change) throws {
        var rows = ChangeRows()
        rows.append(change)
        _ = try postgres.execute(
            "select pathmirror.apply_change($1, $2, $3, $4, $5)",
            [.int8(namespace), .int8(seq), .text(change.path.description), .array(rows.paths), .array(rows.values)])
    }
}
