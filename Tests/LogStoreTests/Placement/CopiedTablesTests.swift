import Postgres
import TestSupport
import Testing

@testable import LogStore

/// Checks that a move copies the rows of a namespace from every table of the schema.
@Suite struct CopiedTablesTests {
    /// Tables whose rows `NamespaceCopy` copies in separate steps.
    private static let byOwnSteps = ["node", "snapshot", "snapshot_chunk"]
    /// Tables that a copy does not need, with the reasons.
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
            // A namespace with mirrors cannot be moved.
            tables = tables.filter { $0 != "mirror" && !$0.hasPrefix("mirror_") }
            let copied =
                NamespaceCopy.appended + NamespaceCopy.whole + NamespaceCopy.ofFeeds + NamespaceCopy.ofFollowing
                + Self.byOwnSteps
            #expect(tables == Set(copied).union(Self.left.keys))
            #expect(Set(copied).isDisjoint(with: Self.left.keys))
        }
    }
}
