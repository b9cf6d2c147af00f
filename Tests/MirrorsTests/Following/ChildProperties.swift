import Engine
import Glibc
import LogStore
import Mirrors
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that a record's children have a separate table, and that a reader in one snapshot sees both tables at the
/// same entry. Parents, children in arrays and maps, and grandchildren are written at random while connections are lost
/// and services start and stop. In each snapshot, all tables have one cursor and equal the projections of the tree at
/// that entry, and every child has its parent.
@Suite(.serialized) struct ChildProperties {
    private static let mirrors = [
        #"{"name": "parents", "path": "/a/{j}", "columns": {"a": "text", "b": "bigint"}, "rest": "rest"}"#,
        #"{"name": "items", "path": "/a/{j}/a/{k}", "keys": {"k": "bigint"}, "columns": {"v": {"type": "text", "path": "."}}}"#,
        #"{"name": "parts", "path": "/a/{j}/b/{k}", "columns": {"b": "numeric"}, "rest": "rest"}"#,
        #"{"name": "leaves", "path": "/a/{j}/b/{k}/{l}", "columns": {"v": {"type": "jsonb", "path": "."}}}"#,
    ]

    static var seeds: [UInt64] {
        if let text = getenv("PATHMIRROR_CHILD_SEEDS").map({ String(cString: $0) }) {
            return text.split(separator: ",").compactMap { UInt64($0) }
        }
        return Array(1...3)
    }

    @Test(arguments: seeds) func parentsAndChildrenMoveTogether(seed: UInt64) throws {
        var generator = MirrorGenerator(seed: seed)
        try MirrorBench.with { bench in
            for mirror in Self.mirrors { try bench.apply(mirror) }
            let log = try LogConnection(bench.url)
            defer { log.close() }
            let trees = LogTrees()
            var rowCount = 0
            for life in 0..<8 {
                // Runs a service for a while. Half of the services are awaited until they reach the head, because a
                // busy machine may delay all of them.
                try bench.following({ $0.entriesAtOnce = 3 }) { _ in
                    for _ in 0..<10 {
                        for _ in 0..<(1 + generator.tree.random.below(6)) {
                            _ = bench.namespace.write(generator.childWrite())
                        }
                        if generator.tree.random.oneIn(5) { try lose(bench) }
                        rowCount += try check(log, bench, trees)
                    }
                    guard life.isMultiple(of: 2) else { return }
                    try bench.catchUp("parents", "items", "parts", "leaves")
                    rowCount += try check(log, bench, trees)
                }
            }
            try bench.following { _ in try bench.catchUp("parents", "items", "parts", "leaves") }
            rowCount += try check(log, bench, trees)
            #expect(try bench.problems() == [])
            #expect(rowCount > 0)
        }
    }

    /// Checks all tables in one snapshot. Returns the number of rows.
    private func check(_ log: LogConnection, _ bench: MirrorBench, _ trees: LogTrees) throws -> Int {
        try log.sql.executeScript("begin isolation level repeatable read read only; set local timezone = 'UTC'")
        defer { try? log.sql.executeScript("rollback") }
        let seqs = try log.sql.execute("select distinct seq from pathmirror.mirror_cursor")
        #expect(seqs.rowCount == 1)
        for child in ["items", "parts", "leaves"] {
            let alone = try log.sql.execute(
                "select count(*) from mirror.\(child) where not exists (select from mirror.parents where parents.j = \(child).j)"
            )
            #expect(try alone.int64(0, 0) == 0, "\(child) without a parent")
        }
        let grandchildren = try log.sql.execute(
            "select count(*) from mirror.leaves where not exists (select from mirror.parts where parts.j = leaves.j and parts.k = leaves.k)"
        )
        #expect(try grandchildren.int64(0, 0) == 0, "leaves without a part")
        var rowCount = 0
        for mirror in try bench.operators.mirrors() {
            let stored = try #require(try StoredProjection(inSnapshotOf: log, mirror, trees))
            let difference = stored.difference
            #expect(difference == nil, "\(difference ?? "")")
            rowCount += stored.rows.count
        }
        return rowCount
    }

    private func lose(_ bench: MirrorBench) throws {
        _ = try bench.sql.execute(
            """
            select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and application_name in ('pathmirror mirror reader', 'pathmirror mirror writer')
            """)
    }
}
