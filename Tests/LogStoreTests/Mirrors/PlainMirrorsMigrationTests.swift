import LogStore
import Postgres
import TestSupport
import Testing

/// Tests of migration 028 on definitions stored by the previous version.
@Suite struct PlainMirrorsMigrationTests {
    private static let plain =
        #"{"name":"plain","path":"/a/{k}","columns":{"z":"text"},"indexes":[{"columns":["z"],"using":"btree"}]}"#
    private static let former = #"""
        {"name":"former","path":"/a/{k}","columns":{"z":"text","at":{"type":"date","path":"x"}},
         "generated":{"g":{"type":"date","as":"at"}},
         "indexes":[{"columns":["z"],"using":"btree","unique":true},{"columns":["at","g"],"using":"btree"},{"columns":["at"],"using":"btree"}],
         "partition":{"by":"at","every":"day"},"keep errors":5}
        """#
    private static let left =
        #"{"name":"former","path":"/a/{k}","columns":{"z":"text","at":{"type":"date","path":"x"}},"indexes":[{"columns":["at"],"using":"btree"}],"keep errors":5}"#

    private static let versions =
        #"{"name":"kept","path":"/a/{k}","columns":{"z":"text"},"indexes":[{"columns":["_current"],"using":"btree"}],"keeps":"versions"}"#
    private static let changes =
        #"{"name":"kept","path":"/a/{k}","columns":{"z":"text"},"indexes":[],"keeps":"changes"}"#

    @Test func storedDefinitionsLoseWhatMirrorsNoLongerHave() throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            _ = try Migrations.up(connection, through: 27)
            try connection.executeScript(
                """
                insert into pathmirror.namespace (name) values ('n');
                insert into pathmirror.mirror (namespace_id, name, definition, updated_at)
                select id, 'former', $$\(Self.former)$$::json, timestamptz '2000-01-01' from pathmirror.namespace
                union all select id, 'kept', $$\(Self.versions)$$::json, '2000-01-01' from pathmirror.namespace
                union all select id, 'plain', $$\(Self.plain)$$::json, '2000-01-01' from pathmirror.namespace;
                insert into pathmirror.mirror_cursor (namespace_id, mirror, seq, definition, generation)
                select namespace_id, id, 1, definition, 1 from pathmirror.mirror;
                insert into pathmirror.mirror_waiting (namespace_id, mirror, generation, key, slot, hash, made)
                select namespace_id, id, 1, 'k', 0, 1, '{}' from pathmirror.mirror;
                insert into pathmirror.mirror_freed (namespace_id, mirror, generation, slot, hash)
                select namespace_id, id, 1, 0, 1 from pathmirror.mirror
                """)
            #expect(try Migrations.up(connection).migrations.map(\.version).contains(28))
            for table in ["mirror", "mirror_cursor"] {
                let rows = try connection.execute(
                    """
                    select definition::text, definition::jsonb in ($1::text::jsonb, $2::text::jsonb) or definition::text = $3,
                        (select string_agg(name, ' ' order by number) from json_object_keys(definition -> 'columns')
                            with ordinality as columns (name, number))
                    from pathmirror.\(table) order by definition ->> 'name'
                    """, [.text(Self.left), .text(Self.changes), .text(Self.plain)])
                #expect(rows.rowCount == 3)
                for row in 0..<rows.rowCount {
                    let text = try rows.string(row, 0)
                    #expect(try rows.bool(row, 1), "\(table): \(text)")
                }
                // Columns keep their order, which is the table's.
                #expect(try rows.string(0, 2) == "z at")
            }
            let waiting =
                "select (select count(*) from pathmirror.mirror_waiting) + (select count(*) from pathmirror.mirror_freed)"
            #expect(try connection.execute(waiting).int64(0, 0) == 0)
            // Gateways detect that a definition has changed.
            let changed = try connection.execute(
                "select string_agg(name, ' ' order by name) from pathmirror.mirror where updated_at > '2000-01-02'")
            #expect(try changed.string(0, 0) == "former kept")
        }
    }
}
