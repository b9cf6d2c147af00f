import LogStore
import Postgres
import TestSupport
import Testing

/// Checks that `MirrorTargetSchema`, which defines the tables in mirrors' targets, creates the same tables as the
/// migrations of Pathmirror's own database, which never change.
@Suite struct MirrorTargetSchemaTests {
    /// The catalog's description of the mirror tables, without the primary database's table that lists the mirrors.
    private static let catalog = """
        with target as (
            select class.oid, class.relname, class.reloptions
            from pg_class as class
            where class.relnamespace = 'pathmirror'::regnamespace and class.relkind = 'r' and class.relname = any ($1::text[])
        )
        select format('table %s %s', relname, reloptions) from target
        union all
        select format('column %s.%s %s %s %s %s', relname, attname, format_type(atttypid, atttypmod), attnotnull, attcollation::regcollation,
            pg_get_expr(adbin, adrelid))
        from target
        join pg_attribute on attrelid = oid and attnum > 0 and not attisdropped
        left join pg_attrdef on adrelid = attrelid and adnum = attnum
        union all
        select format('index %s', pg_get_indexdef(indexrelid)) from target join pg_index on indrelid = target.oid
        union all
        select format('constraint %s %s %s', relname, conname, pg_get_constraintdef(pg_constraint.oid))
        from target join pg_constraint on conrelid = target.oid
        order by 1
        """

    private static func lines(_ connection: PostgresConnection, _ tables: String) throws -> [String] {
        let rows = try connection.execute(
            catalog.replacing("$1::text[]", with: "'\(tables)'::text[]"))
        return try (0..<rows.rowCount).map { try rows.string($0, 0) }
    }

    @Test func targetsHaveTheTablesOfThePrimary() throws {
        var tables = ""
        var target: [String] = []
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            try MirrorTargetSchema.make(connection)
            let rows = try connection.execute(
                """
                select array_agg(relname order by relname)::text from pg_class
                where relnamespace = 'pathmirror'::regnamespace and relkind = 'r'
                """)
            tables = try rows.string(0, 0)
            target = try Self.lines(connection, tables)
        }
        #expect(target.count > 20, "the tables are found")
        try TestDatabase.with { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            #expect(try Self.lines(connection, tables) == target)
        }
    }
}
