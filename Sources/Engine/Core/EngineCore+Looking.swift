import LogStore

extension EngineCore {
    /// Compares the heads with what this gateway has. Then the database is there, and not before: it may be another one.
    ///
    /// - Parameter isNew: this is the first look on a connection. What goes on from entries that this gateway has may go on
    ///   from others of the same seq as well: a committer has to compare them.
    func look(_ connection: LogConnection, isNew: Bool) throws(LogStoreError) {
        // Taken before the question: whatever is in them was committed then, and is in the answer.
        let known = namespaces.all.map { ($0, $0.snapshot) }
        var heads: [Int64: (head: Int64, batch: [UInt8]?)] = [:]
        for (id, head, batch) in try connection.heads(known.map(\.0.id)) { heads[id] = (head, batch) }
        for (namespace, snapshot) in known {
            guard let now = heads[namespace.id], now.head >= snapshot.seq,
                now.head > snapshot.seq || snapshot.isOf(now.batch)
            else {
                namespace.suspect()
                continue
            }
            namespace.headSeen(now.head)
            // Also where a committer could not look yet.
            if namespace.isSuspect || (isNew && now.head > snapshot.seq) { namespace.suspect() }
        }
        // Whoever failed to connect meanwhile is contradicted.
        databaseAnswered()
    }
}
