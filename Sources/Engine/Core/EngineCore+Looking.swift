import LogStore

extension EngineCore {
    /// Compares the heads with what this gateway has. Then the database is there, and not before: it may be another one.
    ///
    /// - Parameter isNew: this is the first look on a connection. What goes on from entries that this gateway has may go on
    ///   from others of the same seq as well: a committer has to compare them.
    func look(_ connection: LogConnection, isNew: Bool) throws(LogStoreError) {
        // Taken before the question: whatever is in them was committed then, and is in the answer.
        // By their ids: whom this refers to meanwhile would not be let go.
        let known = namespaces.all.map { namespace -> (id: Int64, snapshot: (seq: Int64, batch: [UInt8]?)) in
            let snapshot = namespace.snapshot
            return (namespace.id, (snapshot.seq, snapshot.batch))
        }
        var heads: [Int64: (head: Int64, batch: [UInt8]?)] = [:]
        for (id, head, batch) in try connection.heads(known.map(\.id)) { heads[id] = (head, batch) }
        for (id, snapshot) in known {
            // One that was loaded meanwhile is newer, and is only looked at for nothing.
            guard let namespace = namespaces.live(id: id) else { continue }
            guard let now = heads[id], now.head >= snapshot.seq,
                now.head > snapshot.seq || Snapshot.isSame(snapshot.batch, now.batch)
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
