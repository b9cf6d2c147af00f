internal import SQLite

/// The tables of a store's file, and the way there from older ones.
enum StoreSchema {
    /// What `PRAGMA user_version` says of a file of today.
    static let version: Int64 = 3

    /// From the version of its place to the next: the first makes the tables. Never changed once released; append.
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
        // As of which entry of the server's log a query's data is.
        "ALTER TABLE queries ADD COLUMN mark TEXT",
        "-- The content of a write may say which run of the app has made it: what older versions can't read.",
    ]

    /// Brings an open file up to date, in one transaction. A file of a later version is an error of kind `misuse`.
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
