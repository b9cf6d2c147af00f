import LogStore
import Mirrors
import Postgres
import Runtime
import TestSupport
import Testing

/// Tests of a gateways' database that has lost entries that a mirror's table in another database has applied.
@Suite struct RolledBackTests {
    @Test(arguments: [0, 2, 4])
    func theTableIsRebuilt(written: Int) throws {
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
                    // The mirror follows the log again.
                    try write(log, "z", 1)
                    #expect(try eventually { try keys(table) == wanted + ["z"] })
                }
                let seq = try table.execute("select seq from pathmirror.mirror_cursor").int64(0, 0)
                #expect(seq == Int64(written) + 2)
            }
        }
    }

    /// Checks that a history loses the entries that the log has lost, and continues with the new ones.
    @Test(arguments: [false, true])
    func aHistoryIsRolledBack(isPruned: Bool) throws {
        try withDatabase { url in
            try withDatabase { elsewhere in
                let socket = try TestCluster.socketPath().replacing("/.s.PGSQL.5432", with: "")
                let environment = [
                    "ELSEWHERE": "host=\(socket) user=pathmirror dbname=\(elsewhere.databaseName ?? "")"
                ]
                let log = try LogConnection(url)
                defer { log.close() }
                let record = try #require(try log.namespace(named: "test", creating: true))
                try write(log, "a", 1)
                let operators = try MirrorAdministration(url, environment: environment)
                defer { operators.close() }
                let text =
                    #"{"name": "m", "path": "/{k}", "keeps": "changes", "columns": {"v": {"type": "bigint", "path": "."}}, "target": "env:ELSEWHERE"}"#
                let definition = try #require(try MirrorDefinition.read(Array(text.utf8), source: "test").first)
                _ = try operators.execute(try operators.plan(definition, namespace: "test"))
                let table = try PostgresConnection(elsewhere)
                try withService(url, environment) {
                    try write(log, "b", 2)
                    try write(log, "a", 3)
                    try write(log, "lost", 4)
                    #expect(try eventually { try versions(table) == ["a1@1-", "a3@3", "b2@2", "lost4@4"] })
                }
                try log.sql.executeScript(
                    """
                    begin;
                    delete from pathmirror.log where seq > 2;
                    update pathmirror.namespace
                    set head = 2, last_batch = (select batch_id from pathmirror.log where seq = 2);
                    delete from pathmirror.node where path = '/lost';
                    update pathmirror.node set value = '1', version = 1 where path = '/a';
                    commit
                    """)
                if isPruned {
                    let pruning = Pruning(log, record)
                    try pruning.run(try pruning.plan(.from(2), force: true))
                }
                try write(log, "c", 5)
                try write(log, "a", 6)
                try withService(url, environment) {
                    #expect(try eventually { try versions(table) == ["a1@1-", "a6@4", "b2@2", "c5@3"] })
                    try write(log, "z", 7)
                    #expect(try eventually { try versions(table) == ["a1@1-", "a6@4", "b2@2", "c5@3", "z7@5"] })
                }
            }
        }
    }

    /// Checks that an obstacle to one mirror's rebuild does not stop other mirrors.
    @Test func oneThatCanNotBeRebuiltKeepsNoOther() throws {
        try withDatabase { url in
            try withDatabase { elsewhere in
                let socket = try TestCluster.socketPath().replacing("/.s.PGSQL.5432", with: "")
                let environment = [
                    "ELSEWHERE": "host=\(socket) user=pathmirror dbname=\(elsewhere.databaseName ?? "")"
                ]
                let log = try LogConnection(url)
                defer { log.close() }
                _ = try #require(try log.namespace(named: "test", creating: true))
                try write(log, "a", 1)
                let operators = try MirrorAdministration(url, environment: environment)
                defer { operators.close() }
                let rest =
                    #""path": "/{k}", "columns": {"v": {"type": "bigint", "path": "."}}, "target": "env:ELSEWHERE"}"#
                let text = #"[{"name": "h_changes", "keeps": "changes", \#(rest), {"name": "m", \#(rest)]"#
                for definition in try MirrorDefinition.read(Array(text.utf8), source: "test") {
                    _ = try operators.execute(try operators.plan(definition, namespace: "test"))
                }
                let table = try PostgresConnection(elsewhere)
                defer { table.close() }
                try withService(url, environment) {
                    try write(log, "lost", 2)
                    #expect(try eventually { try keys(table) == ["a", "lost"] })
                    #expect(
                        try eventually {
                            try table.execute("select min(seq) from pathmirror.mirror_cursor").int64(0, 0) == 2
                        })
                }
                // Simulates a history of an earlier version with its versions table.
                try table.executeScript("drop view mirror.h_versions; create table mirror.h_versions ()")
                try log.sql.executeScript(
                    """
                    begin;
                    delete from pathmirror.log where seq > 1;
                    update pathmirror.namespace
                    set head = 1, last_batch = (select batch_id from pathmirror.log where seq = 1);
                    delete from pathmirror.node where path <> '/a';
                    commit
                    """)
                try withService(url, environment) {
                    #expect(try eventually { try keys(table) == ["a"] })
                    try write(log, "b", 3)
                    #expect(try eventually { try keys(table) == ["a", "b"] })
                    let changes = "select coalesce(string_agg(k, ' ' order by k), 'none') from mirror.h_changes"
                    let before = try table.execute(changes).string(0, 0)
                    #expect(before == "a lost")
                    try table.executeScript("drop table mirror.h_versions")
                    #expect(try eventually { try table.execute(changes).string(0, 0) == "a b" })
                }
            }
        }
    }

    /// Checks that rows that only lost entries have created remain as removed rows, so that readers notice their
    /// removal.
    @Test func rowsOfLostEntriesAreRemovedOnes() throws {
        try withDatabase { url in
            try withDatabase { elsewhere in
                let socket = try TestCluster.socketPath().replacing("/.s.PGSQL.5432", with: "")
                let environment = [
                    "ELSEWHERE": "host=\(socket) user=pathmirror dbname=\(elsewhere.databaseName ?? "")"
                ]
                let log = try LogConnection(url)
                defer { log.close() }
                _ = try #require(try log.namespace(named: "test", creating: true))
                for (key, value) in [("a", 1), ("back", 1), ("stays", 1)] { try write(log, key, value) }
                let operators = try MirrorAdministration(url, environment: environment)
                defer { operators.close() }
                let text =
                    #"{"name": "m", "path": "/{k}", "deleted": "soft", "columns": {"v": {"type": "bigint", "path": "."}}, "target": "env:ELSEWHERE"}"#
                let definition = try #require(try MirrorDefinition.read(Array(text.utf8), source: "test").first)
                _ = try operators.execute(try operators.plan(definition, namespace: "test"))
                let table = try PostgresConnection(elsewhere)
                let look = {
                    let rows = try table.execute(
                        "select k || ' ' || v || ' ' || _seq || case when _deleted_at is null then '' else ' gone' end from mirror.m order by k"
                    )
                    return try (0..<rows.rowCount).map { try rows.string($0, 0) }
                }
                try withService(url, environment) {
                    try remove(log, "back")
                    // Entries from here on are lost.
                    try write(log, "back", 2)
                    try write(log, "new", 3)
                    try write(log, "stays", 9)
                    try write(log, "brief", 4)
                    try remove(log, "brief")
                    #expect(
                        try eventually {
                            try look() == ["a 1 3", "back 2 5", "brief 4 9 gone", "new 3 6", "stays 9 7"]
                        })
                }
                try log.sql.executeScript(
                    """
                    begin;
                    delete from pathmirror.log where seq > 4;
                    update pathmirror.namespace
                    set head = 4, last_batch = (select batch_id from pathmirror.log where seq = 4);
                    delete from pathmirror.node where path in ('/back', '/new');
                    update pathmirror.node set value = '1', version = 3 where path = '/stays';
                    commit
                    """)
                try withService(url, environment) {
                    #expect(
                        try eventually {
                            try look() == ["a 1 3", "back 2 4 gone", "brief 4 4 gone", "new 3 4 gone", "stays 1 4"]
                        })
                    try write(log, "new", 5)
                    #expect(
                        try eventually {
                            try look() == ["a 1 3", "back 2 4 gone", "brief 4 4 gone", "new 5 5", "stays 1 4"]
                        })
                }
                let mirror = try operators.mirror(named: "m", of: "test")
                #expect(operators.beginning(of: mirror)?.seq == 5)
                _ = try operators.rebuild(mirror)
                #expect(try look() == ["a 1 3", "back 2 4 gone", "brief 4 4 gone", "new 5 5", "stays 1 4"])
            }
        }
    }

    private func remove(_ log: LogConnection, _ key: String) throws {
        _ = try log.sql.execute("select pathmirror.set('test', $1, 'null')", [.text("/" + key)])
    }

    private func versions(_ table: PostgresConnection) throws -> [String] {
        let rows = try table.execute(
            "select k || v || '@' || _seq || case when _current then '' else '-' end from mirror.m_versions order by k, _seq"
        )
        return try (0..<rows.rowCount).map { try rows.string($0, 0) }
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
        // Announcements are not delivered to the service, so only the poll finds entries.
        let service = MirrorService(
            url: url, settings: settings, announcements: Announcements(),
            logger: Logger(level: .error, descriptor: -1))
        defer { service.stop() }
        try body()
    }
}
