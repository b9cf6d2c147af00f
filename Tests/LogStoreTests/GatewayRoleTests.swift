import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

/// `pathmirror_gateway`: enough for a gateway, and no more.
@Suite struct GatewayRoleTests {
    /// A connection that has given up being the schema's owner.
    private func asGateway(_ body: (PostgresConnection) throws -> Void) throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            try connection.executeScript("set session authorization pathmirror_gateway")
            try body(connection)
        }
    }

    @Test func readsEveryTable() throws {
        try asGateway { connection in
            let hidden = try connection.execute(
                """
                select relname from pg_class where relnamespace = 'pathmirror'::regnamespace and relkind in ('r', 'p', 'v')
                    and not has_table_privilege(oid, 'select')
                """)
            #expect(hidden.rowCount == 0, "a migration must grant what it makes to pathmirror_gateway")
        }
    }

    @Test func makesPartitionsAndAppends() throws {
        try asGateway { connection in
            try connection.executeScript(
                """
                insert into pathmirror.namespace (name) values ('granted');
                select pathmirror.ensure_log_partition(id, 66000, 1000) from pathmirror.namespace where name = 'granted';
                insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
                select id, seq, now(), gen_random_uuid(), 'set', '/', '{}' from pathmirror.namespace, unnest(array[1, 66000]) as seq
                where name = 'granted'
                """)
        }
    }

    @Test(arguments: [
        "update pathmirror.log set path = '/x'", "delete from pathmirror.log", "truncate pathmirror.log",
        "update pathmirror.log_part set part = 1", "delete from pathmirror.rule",
        "update pathmirror.migration set name = 'x'", "alter table pathmirror.node add column x int",
        "drop table pathmirror.node", "create table pathmirror.mine (x int)",
    ])
    func cannotRewriteTheLogOrChangeTheSchema(statement: String) throws {
        try asGateway { connection in
            #expect(throws: PostgresError.self) { try connection.executeScript(statement) }
        }
    }
}
