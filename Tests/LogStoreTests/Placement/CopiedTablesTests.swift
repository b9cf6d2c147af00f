import Postgres
import TestSupport
import Testing

@testable import LogStore

/// A namespace that moves takes along what each table of the schema has of it.
@Suite struct CopiedTablesTests {
    /// Tables of which `NamespaceCopy` copies rows by steps of its own.
    private static let byOwnSteps = ["node", "snapshot", "snapshot_chunk"]
    /// Tables that a copy does not need, and why.
    private static let left = [
        "large_write": "the rows of the copy have the entries' numbers",
        "retention_look": "names a partition of the source",
        "namespace_copy": "is about copies in this database",
    ]

    @Test func everyTableIsCopiedOrLeftForAReason() throws {
        try withSession { session in
            let rows = try session.postgres.execute(
                """
                select relname::text from pg_class join pg_attribute on attrelid = pg_class.oid
                where relnamespace = 'pathmirror'::regnamespace and relkind in ('r', 'p') and not relispartition
                    and attname = 'namespace_id' and not attisdropped
                """)
            var tables = Set<String>()
            for row in 0..<rows.rowCount { tables.insert(try rows.string(row, 0)) }
            // A namespace with mirrors does not move.
            tables = tables.filter { $0 != "mirror" && !$0.hasPrefix("mirror_") }
            let copied = NamespaceCopy.appended + NamespaceCopy.whole + NamespaceCopy.ofFeeds + Self.byOwnSteps
            #expect(tables == Set(copied).union(Self.left.keys))
            #expect(Set(copied).isDisjoint(with: Self.left.keys))
        }
    }
}
