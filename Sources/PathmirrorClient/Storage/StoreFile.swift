internal import ClientCore
internal import SQLite
internal import Tree

/// An open file of a store, with its SQL. All methods throw SQLite's errors, which `SQLiteClientStore` handles.
///
/// Each row of `cache` contains the whole subtree of the server's data at its path. No row is at or below the path of another, with
/// one exception: a node that is split over several rows has its priority in a row of its own, before its children's rows.
final class StoreFile {
    let connection: SQLiteConnection
    let layout: StoreLayout
    /// The number of bytes in the rows of the server's data.
    var cacheBytes: Int
    /// Whether a node that is split over several rows may have a priority. Once true, it is never reset, because most
    /// files never have such a node.
    var hasPriorityRows: Bool
    private var savedCacheBytes: Int

    let cover: SQLiteStatement
    let range: SQLiteStatement
    let all: SQLiteStatement
    let rangeSize: SQLiteStatement
    let deleteRange: SQLiteStatement
    let deleteRow: SQLiteStatement
    let putRow: SQLiteStatement
    private let putFact: SQLiteStatement
    private let getFact: SQLiteStatement
    private let beginning: SQLiteStatement
    private let committing: SQLiteStatement
    private var compiled: [StoreStatement: SQLiteStatement] = [:]

    /// Opens a file and locks it exclusively for this connection as long as it is open.
    init(_ location: SQLiteLocation, layout: StoreLayout = StoreLayout()) throws(SQLiteError) {
        let connection = try SQLiteConnection(location, patience: 500)
        try connection.execute(
            """
            PRAGMA page_size = \(layout.pageSize);
            PRAGMA locking_mode = EXCLUSIVE;
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = NORMAL;
            PRAGMA journal_size_limit = 4194304;
            PRAGMA temp_store = MEMORY;
            PRAGMA trusted_schema = OFF;
            PRAGMA cell_size_check = ON;
            BEGIN IMMEDIATE; COMMIT;
            """)
        try StoreSchema.migrate(connection)
        self.connection = connection
        self.layout = layout
        let cacheRange = "FROM cache WHERE path >= ?1 AND path < ?2"
        cover = try connection.prepare("SELECT path, value FROM cache WHERE path <= ?1 ORDER BY path DESC LIMIT 1")
        range = try connection.prepare("SELECT path, value \(cacheRange) ORDER BY path")
        all = try connection.prepare("SELECT path, value FROM cache ORDER BY path")
        rangeSize = try connection.prepare("SELECT count(*), total(length(path) + length(value)) \(cacheRange)")
        deleteRange = try connection.prepare("DELETE \(cacheRange)")
        deleteRow = try connection.prepare("DELETE FROM cache WHERE path = ?1")
        putRow = try connection.prepare("INSERT OR REPLACE INTO cache VALUES (?1, ?2)")
        putFact = try connection.prepare("INSERT OR REPLACE INTO facts VALUES (?1, ?2)")
        getFact = try connection.prepare("SELECT value FROM facts WHERE name = ?1")
        beginning = try connection.prepare("BEGIN IMMEDIATE")
        committing = try connection.prepare("COMMIT")
        cacheBytes = 0
        savedCacheBytes = 0
        hasPriorityRows = false
        cacheBytes = Int(try Self.sound(try integerFact("cache_bytes") ?? 0, "size"))
        savedCacheBytes = cacheBytes
        hasPriorityRows = try integerFact("has_priority_rows") == 1
    }

    func statement(_ name: StoreStatement) throws(SQLiteError) -> SQLiteStatement {
        if let statement = compiled[name] { return statement }
        let statement = try connection.prepare(name.rawValue)
        compiled[name] = statement
        return statement
    }

    // MARK: Transactions

    func begin() throws(SQLiteError) {
        guard !connection.isInTransaction else { return }
        try beginning.run()
    }

    /// - Parameter isDurable: Whether to return only when the commit is durable against power failure.
    func commit(isDurable: Bool) throws(SQLiteError) {
        if connection.isInTransaction {
            if cacheBytes != savedCacheBytes {
                try put(Int64(cacheBytes), as: "cache_bytes")
                savedCacheBytes = cacheBytes
            }
            try committing.run()
        }
        if isDurable { try connection.syncLog() }
    }

    /// Discards the uncommitted changes, if SQLite still can.
    func rollBack() {
        guard connection.isInTransaction else { return }
        try? connection.execute("ROLLBACK")
    }

    // MARK: Facts

    func integerFact(_ name: String) throws(SQLiteError) -> Int64? {
        try getFact.bind(1, name)
        guard try getFact.step() else { return nil }
        defer { getFact.reset() }
        return getFact.isNull(0) ? nil : getFact.integer(0)
    }

    func textFact(_ name: String) throws(SQLiteError) -> String? {
        try getFact.bind(1, name)
        guard try getFact.step() else { return nil }
        defer { getFact.reset() }
        return getFact.isNull(0) ? nil : getFact.text(0)
    }

    func put(_ value: Int64?, as name: String) throws(SQLiteError) {
        try putFact.bind(1, name)
        if let value { try putFact.bind(2, value) } else { try putFact.bindNull(2) }
        try putFact.run()
    }

    func put(_ value: String?, as name: String) throws(SQLiteError) {
        try putFact.bind(1, name)
        if let value { try putFact.bind(2, value) } else { try putFact.bindNull(2) }
        try putFact.run()
    }

    /// Checks a stored number from which the program continues counting. A damaged number, which no valid file contains,
    /// must not cause an overflow.
    static func sound(_ number: Int64, _ what: String) throws(SQLiteError) -> Int64 {
        guard (0...(1 << 62)).contains(number) else { throw damage(what) }
        return number
    }

    /// Returns the error for a row whose bytes are invalid: the file is damaged, even if SQLite accepts it.
    static func damage(_ what: String) -> SQLiteError {
        SQLiteError(
            code: SQLiteError.damagedCode, operation: "read \(what)", reason: "its bytes are not a valid \(what)")
    }
}

/// The tables of a store's file, and the migrations of older files.
enum StoreSchema {
    /// The value of `PRAGMA user_version` in a current file.
    static let version: Int64 = 3

    /// The migrations. Each one leads from the version equal to its index to the next version; the first creates the tables.
    /// Released migrations must not be changed.
    private static let migrations: [String] = [
        """
        CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
        CREATE TABLE cache (path BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE writes (id INTEGER PRIMARY KEY, path BLOB NOT NULL, content BLOB NOT NULL);
        CREATE TABLE queries (
            id INTEGER PRIMARY KEY, path BLOB NOT NULL, query BLOB NOT NULL, last_use INTEGER NOT NULL,
            is_complete INTEGER NOT NULL, is_active INTEGER NOT NULL);
        CREATE TABLE query_keys (query INTEGER NOT NULL, key TEXT NOT NULL, PRIMARY KEY (query, key)) WITHOUT ROWID;
        """,
        // The log entry at which a query's data holds.
        "ALTER TABLE queries ADD COLUMN mark TEXT",
        "-- A write may name the run of the app that made it, which older versions can't read.",
    ]

    /// Migrates an open file to the current version in one transaction. Throws an error of kind `misuse` for a file of a later version.
    static func migrate(_ connection: SQLiteConnection) throws(SQLiteError) {
        let found = try connection.integer("PRAGMA user_version") ?? 0
        guard found != version else { return }
        guard found >= 0, found < version else {
            throw SQLiteError(
                code: SQLiteError.misuseCode, operation: "open a store",
                reason: "its version is \(found), and this library reads versions up to \(version)")
        }
        try connection.execute("BEGIN IMMEDIATE")
        for migration in migrations[Int(found)...] { try connection.execute(migration) }
        try connection.execute("PRAGMA user_version = \(version); COMMIT")
    }
}

/// Statements that are compiled on first use.
enum StoreStatement: String {
    case putWrite = "INSERT OR REPLACE INTO writes VALUES (?1, ?2, ?3)"
    case removeWrite = "DELETE FROM writes WHERE id = ?1"
    case putQuery = "INSERT OR REPLACE INTO queries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
    case removeQuery = "DELETE FROM queries WHERE id = ?1"
    case keys = "SELECT key FROM query_keys WHERE query = ?1"
    case putKey = "INSERT OR IGNORE INTO query_keys VALUES (?1, ?2)"
    case removeKey = "DELETE FROM query_keys WHERE query = ?1 AND key = ?2"
    case removeKeys = "DELETE FROM query_keys WHERE query = ?1"
}

/// The layout of the server's data in rows: a subtree that is small enough when it is written becomes one row. A change within it
/// rewrites only that row; other changes find their row in O(log n).
package struct StoreLayout: Sendable {
    /// The maximum number of leaves and priorities in a row.
    package var maxLeaves = 32
    /// The maximum number of bytes in a row, except for a single longer leaf.
    package var maxBytes = 2048
    /// The page size of a new file.
    package var pageSize = 4096

    package init() {}
}
