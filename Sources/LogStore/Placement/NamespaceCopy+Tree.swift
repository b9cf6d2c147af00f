import Postgres

/// The tree's rows: of what entries name, those that are there now.
extension NamespaceCopy {
    /// All rows into a new copy; else those that entries behind a seq concern.
    func copyNodes(behind last: Int64) throws {
        let version = ["version": "pathmirror.version_seq(n.version)"]
        let isNew = try target.execute(
            "select created_at = '-infinity' from pathmirror.namespace where id = $1", [.int8(targetID)]
        ).bool(0, 0)
        if isNew {
            try pipe("node", "true", version)
            return
        }
        try noteTouched(behind: last)
        _ = try target.execute(
            "delete from pathmirror.node where ctid = any(array(select n.ctid from \(Self.movedRows(targetID)) as n))")
        try pipe("node", "true", version, rows: Self.movedRows(sourceID))
    }

    /// Those rows of the tree that `moved_row` names. Each is looked up by itself (so says `offset 0`): of a table that nobody has analysed,
    /// as the target's is then, the planner believes that there is next to nothing in it, and would compare each row with each path.
    private static func movedRows(_ id: Int64) -> String {
        """
        (select known.* from (select distinct path from moved_row) as moved cross join lateral (
            select n.ctid, n.* from pathmirror.node as n where n.namespace_id = \(id) and n.path = moved.path offset 0
        ) as known)
        """
    }

    /// Notes on both sides which rows of the tree entries concern: those of the parts that they name, and single ones above these.
    /// The entries are those that were copied: in the source's log there may be fewer by now.
    private func noteTouched(behind last: Int64) throws {
        var parts = Set<[UInt8]>()
        var rows = Set<[UInt8]>()
        for table in ["log", "log_part"] {
            try target.forEachRow(
                "select distinct json_object_keys(changes) from pathmirror.\(table) where namespace_id = $1 and seq > $2",
                [.int8(targetID), .int8(last)]
            ) { row in
                let touched = TouchedPart(try row.bytes(0))
                parts.insert(touched.part)
                rows.formUnion(touched.above)
            }
        }
        rows.formUnion(parts)
        for (connection, id) in [(source, sourceID), (target, targetID)] {
            try connection.executeScript(
                "truncate moved_part, moved_row; set local enable_seqscan = off; set local jit = off")
            try fill("moved_part", parts, connection)
            try fill("moved_row", rows, connection)
            // By the index, a part at a time: see `movedRows`.
            _ = try connection.execute(
                """
                insert into moved_row select below.path from (select distinct path from moved_part) as part cross join lateral (
                    select n.path from pathmirror.node as n
                    where n.namespace_id = $1 and n.path >= part.path || '/' and n.path < part.path || '0' offset 0
                ) as below
                """, [.int8(id)])
            try connection.executeScript("analyze moved_row")
        }
    }

    private func fill(_ table: String, _ paths: Set<[UInt8]>, _ connection: PostgresConnection) throws {
        _ = try connection.copyIn("copy \(table) from stdin (format binary)") { writer in
            for path in paths {
                writer.beginRow()
                try writer.appendText(path)
                try writer.endRow()
            }
        }
    }
}
