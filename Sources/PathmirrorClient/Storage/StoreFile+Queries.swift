internal import ClientCore
internal import SQLite
internal import Tree
internal import Wire

/// Tracked queries and their keys. They change rarely, so their statements are not compiled in advance.
extension StoreFile {
    func trackedQueries() throws(SQLiteError) -> [TrackedQuery] {
        let rows = try connection.prepare("SELECT id, path, query, last_use, is_complete, is_active, mark FROM queries")
        var queries: [TrackedQuery] = []
        while try rows.step() {
            guard let path = RowPath.decode(rows.rawBytes(1)), let query = QueryCodec.decode(rows.rawBytes(2)) else {
                throw Self.damage("query")
            }
            queries.append(
                TrackedQuery(
                    id: try Self.sound(rows.integer(0), "query's number"),
                    spec: QuerySpec(path: path, query: query), lastUse: try Self.sound(rows.integer(3), "time of use"),
                    isComplete: rows.integer(4) != 0, isActive: rows.integer(5) != 0,
                    mark: rows.isNull(6) ? nil : LogMark(rows.text(6))))
        }
        return queries
    }

    func save(_ query: TrackedQuery) throws(SQLiteError) {
        let put = try statement(.putQuery)
        try put.bind(1, query.id)
        try put.bind(2, RowPath.encode(query.spec.path))
        try put.bind(3, QueryCodec.encode(query.spec.query))
        try put.bind(4, query.lastUse)
        try put.bind(5, query.isComplete ? 1 : 0)
        try put.bind(6, query.isActive ? 1 : 0)
        if let mark = query.mark { try put.bind(7, mark.text) } else { try put.bindNull(7) }
        try put.run()
    }

    func removeTrackedQuery(_ id: Int64) throws(SQLiteError) {
        let remove = try statement(.removeQuery)
        try remove.bind(1, id)
        try remove.run()
        try removeKeys(of: id)
    }

    func trackedKeys(_ id: Int64) throws(SQLiteError) -> Set<Key> {
        let rows = try statement(.keys)
        try rows.bind(1, id)
        var keys: Set<Key> = []
        while try rows.step() { keys.insert(Key(rows.text(0))) }
        return keys
    }

    func setTrackedKeys(_ keys: Set<Key>, of id: Int64) throws(SQLiteError) {
        try removeKeys(of: id)
        try updateTrackedKeys(adding: keys, removing: [], of: id)
    }

    func updateTrackedKeys(adding: Set<Key>, removing: Set<Key>, of id: Int64) throws(SQLiteError) {
        let put = try statement(.putKey)
        for key in adding { try run(put, id, key) }
        let remove = try statement(.removeKey)
        for key in removing { try run(remove, id, key) }
    }

    private func run(_ statement: SQLiteStatement, _ id: Int64, _ key: Key) throws(SQLiteError) {
        try statement.bind(1, id)
        try statement.bind(2, key.text)
        try statement.run()
    }

    private func removeKeys(of id: Int64) throws(SQLiteError) {
        let remove = try statement(.removeKeys)
        try remove.bind(1, id)
        try remove.run()
    }
}
