import Postgres

/// Feeds are told by their numbers within a database: a copy's get new ones.
extension NamespaceCopy {
    /// Copies the namespace's feeds with all that is kept of them, as a whole.
    func copyFeeds() throws {
        for table in ["feed_message", "feed_owner", "feed_progress", "feed"] {
            _ = try target.execute("delete from pathmirror.\(table) where namespace_id = $1", [.int8(targetID)])
        }
        let known = try source.execute(
            "select id from pathmirror.feed where namespace_id = $1 order by id", [.int8(sourceID)])
        guard known.rowCount > 0 else { return }
        var former: [String] = []
        var cases = ""
        for row in 0..<known.rowCount {
            let id = try known.int64(row, 0)
            let new = try target.execute("select nextval(pg_get_serial_sequence('pathmirror.feed', 'id'))")
            former.append("\(id)")
            cases += " when \(id) then \(try new.int64(0, 0))"
        }
        let list = former.joined(separator: ", ")
        try pipe("feed", "n.id in (\(list))", ["id": "case n.id\(cases) end"])
        for table in ["feed_progress", "feed_owner", "feed_message"] {
            try pipe(table, "n.feed in (\(list))", ["feed": "case n.feed\(cases) end"])
        }
    }
}
