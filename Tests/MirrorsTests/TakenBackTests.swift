import LogStore
import Mirrors
import Postgres
import Runtime
import TestSupport
import Testing

/// The gateways' database has lost entries that a mirror's table, in another one, has taken over.
@Suite struct TakenBackTests {
    @Test(arguments: [0, 2, 4])
    func theTableIsMadeAnew(written: Int) throws {
        try withDatabase { url in
            try withDatabase { elsewhere in
                let socket = try TestCluster.socketPath().replacing("/.s.PGSQL.5432", with: "")
                let target = "host=\(socket) user=pathmirror dbname=\(elsewhere.databaseName ?? "")"
                let environment = ["ELSEWHERE": target]
                let log = try LogConnection(url)
                defer { log.close() }
                _ = try #require(try log.namespace(named: "test", creating: true))
                try write(log, "a", 1)
                let operators = try MirrorAdministration(url, environment: environment)
                defer { operators.close() }
                let text =
                    #"{"name": "m", "path": "/{k}", "columns": {"v": {"type": "bigint", "path": "."}}, "target": "env:ELSEWHERE"}"#
                let definition = try #require(try MirrorDefinition.read(Array(text.utf8), source: "test").first)
                _ = try operators.execute(try operators.plan(definition, namespace: "test"))
                let table = try PostgresConnection(elsewhere)
                try withService(url, environment) {
                    for number in 1...2 { try write(log, "lost\(number)", number) }
                    #expect(try eventually { try keys(table) == ["a", "lost1", "lost2"] })
                }
                try log.sql.executeScript(
                    """
                    begin;
                    delete from pathmirror.log where seq > 1;
                    update pathmirror.namespace
                    set head = 1, last_batch = (select batch_id from pathmirror.log where seq = 1);
                    delete from pathmirror.node where path <> '/a';
                    commit
                    """)
                for number in 0..<written { try write(log, "new\(number)", number) }
                let wanted = ["a"] + (0..<written).map { "new\($0)" }
                try withService(url, environment) {
                    #expect(try eventually { try keys(table) == wanted })
                    // And it follows again.
                    try write(log, "z", 1)
                    #expect(try eventually { try keys(table) == wanted + ["z"] })
                }
                let seq = try table.execute("select seq from pathmirror.mirror_cursor").int64(0, 0)
                #expect(seq == Int64(written) + 2)
            }
        }
    }

    private func write(_ log: LogConnection, _ key: String, _ value: Int) throws {
        _ = try log.sql.execute(
            "select pathmirror.set('test', $1, to_jsonb($2))", [.text("/" + key), .int8(Int64(value))])
    }

    private func keys(_ table: PostgresConnection) throws -> [String] {
        let rows = try table.execute("select k from mirror.m order by k")
        return try (0..<rows.rowCount).map { try rows.string($0, 0) }
    }

    private func withService(_ url: PostgresURL, _ environment: [String: String], _ body: () throws -> Void) throws {
        var settings = MirrorSettings()
        settings.pollMilliseconds = 20
        settings.takeoverMilliseconds = 20
        settings.environment = environment
        // Nobody tells what is announced: the poll finds it.
        let service = MirrorService(
            url: url, settings: settings, announcements: Announcements(),
            logger: Logger(level: .error, descriptor: -1))
        defer { service.stop() }
        try body()
    }
}
