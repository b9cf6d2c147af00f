import Postgres
import Tree

/// The namespace that something is loaded into. One that isn't there is made by the transaction that loads into it: of a
/// load that is refused or cut short nothing is left, no namespace either.
struct Destination {
    let name: String
    /// Nil while there is none, or while the transaction that makes it is not committed and `made` knows it.
    private(set) var record: NamespaceRecord?
    /// The namespace that the open transaction makes.
    private var made: NamespaceRecord?

    init(_ record: NamespaceRecord) {
        name = record.name
        self.record = record
    }

    init(_ connection: LogConnection, named name: String) throws(LogStoreError) {
        self.name = name
        record = try connection.namespace(named: name)
    }

    /// The namespace's id; 0, which none has, while there is none.
    var id: Int64 { (made ?? record)?.id ?? 0 }

    /// Begins a transaction that holds the head's lock, and returns the head.
    ///
    /// - Parameter lock: does that where the namespace is there.
    mutating func begin(_ connection: LogConnection, _ lock: (NamespaceRecord) throws -> Int64) throws -> Int64 {
        if record == nil {
            if try make(connection) { return 0 }
            record = try connection.namespace(named: name)
        }
        guard let record else { throw LogStoreError.unknownNamespace(name) }
        return try lock(record)
    }

    /// False when somebody else has made it meanwhile; then no transaction is open.
    private mutating func make(_ connection: LogConnection) throws -> Bool {
        try connection.postgres.executeScript("begin")
        let isMade =
            try connection.postgres.execute(
                "insert into pathmirror.namespace (name) values ($1) on conflict (name) do nothing", [.text(name)]
            ).affectedRows == 1
        guard isMade else {
            connection.unlockHead()
            return false
        }
        made = try connection.namespace(named: name)
        return true
    }

    /// What has to come before an entry is added. The log's partition is made at the end, as to make one keeps others from
    /// making theirs.
    func stepsBeforeLogging(_ connection: LogConnection) -> [PipelineStep] {
        guard let made else { return [] }
        return [
            .query(
                "select pathmirror.ensure_log_partition($1, 1, $2)",
                [.int8(made.id), .int8(connection.settings.entriesPerPartition)])
        ]
    }

    /// The transaction is committed.
    mutating func committed() {
        record = made ?? record
        made = nil
    }

    /// The transaction is undone.
    mutating func undone() { made = nil }
}

extension LogConnection {
    /// Removes the rows at and below a path, and the leaves above it, which become branches: something will come there.
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

    /// Applies one change to the rows, as a write of an entry does.
    func apply(_ namespace: Int64, _ seq: Int64, _ change: Change) throws {
        var rows = ChangeRows()
        rows.append(change)
        _ = try postgres.execute(
            "select pathmirror.apply_change($1, $2, $3, $4, $5)",
            [.int8(namespace), .int8(seq), .text(change.path.description), .array(rows.paths), .array(rows.values)])
    }
}
