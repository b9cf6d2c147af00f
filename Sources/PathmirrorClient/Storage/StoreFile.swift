internal import ClientCore
internal import SQLite
internal import Tree

/// An open file of a store: its SQL. Everything here throws what SQLite says; `SQLiteClientStore` decides what then.
///
/// Of the server's data, each row of `cache` holds the whole subtree at its path. No row lies at or below another but for
/// one kind: a node that is split over several rows has its priority in a row of its own, before its children's.
final class StoreFile {
    let connection: SQLiteConnection
    let layout: StoreLayout
    /// How many bytes the rows of the server's data have.
    var cacheBytes: Int
    /// Whether any node that is split over rows may have a priority. Never false again, as most files never have one.
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

    /// Opens a file and takes it for this connection alone, for as long as it is open.
    init(_ place: SQLitePlace, layout: StoreLayout = StoreLayout()) throws(SQLiteError) {
        let connection = try SQLiteConnection(place, patience: 500)
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

    /// - Parameter isDurable: returns when it is safe from a power cut.
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

    /// Forgets what was not committed, as far as SQLite still can.
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

    /// A number that is counted on from: a damaged one, which no file of ours comes to, must not overflow.
    static func sound(_ number: Int64, _ what: String) throws(SQLiteError) -> Int64 {
        guard (0...(1 << 62)).contains(number) else { throw damage(what) }
        return number
    }

    /// For a row whose bytes are no value: the file is damaged, even if SQLite takes it for whole.
    static func damage(_ what: String) -> SQLiteError {
        SQLiteError(code: SQLiteError.damagedCode, operation: "read \(what)", reason: "its bytes are no \(what)")
    }
}
