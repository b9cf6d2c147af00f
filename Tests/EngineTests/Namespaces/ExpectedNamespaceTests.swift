import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks namespaces that return from another database while their former state is being read.
@Suite struct ExpectedNamespaceTests {
    /// Replaces the namespace by another of the same name while an engine reads the former one, and has only reached
    /// its head.
    ///
    /// - Parameter body: receives the namespace that the waiting request gets.
    private func exchangeWhileItIsRead(
        _ url: PostgresURL, reported: (Engine) -> Void, _ body: (LiveNamespace) throws -> Void
    ) throws {
        let connection = try LogConnection(url)
        defer { connection.close() }
        let record = try #require(try connection.namespace(named: "test", creating: true))
        try insert("before", of: record.id, connection)
        let engine = try TestEngine(url)
        defer { engine.stop() }
        // The engine takes a snapshot of the database before it reads rows.
        try connection.sql.executeScript("begin; lock table pathmirror.node in access exclusive mode")
        let result = Condition<Result<LiveNamespace, EngineError>?>(nil)
        engine.engine.withNamespace("test") { loaded in result.broadcast { $0 = loaded } }
        #expect(try oneWaitsForALock(url))
        try connection.sql.executeScript(
            """
            delete from pathmirror.node; delete from pathmirror.namespace;
            insert into pathmirror.namespace (name) values ('test')
            """)
        let now = try connection.sql.execute("select id from pathmirror.namespace").int64(0, 0)
        try #require(now != record.id)
        try insert("now", of: now, connection)
        reported(engine.engine)
        #expect(result.withLock { $0 == nil })
        try connection.sql.executeScript("commit")
        try body(try #require(result.wait(milliseconds: 30_000) { $0 }).get())
    }

    private func insert(_ text: String, of namespace: Int64, _ connection: LogConnection) throws {
        try connection.sql.executeScript(
            """
            insert into pathmirror.node (namespace_id, path, value, version) values (\(namespace), '/x', '"\(text)"', 0)
            """)
    }

    @Test func itIsReadOnceMore() throws {
        try withDatabase { url in
            try exchangeWhileItIsRead(url) {
                $0.expect("test", wasAway: true)
            } _: { namespace in
                #expect(namespace.snapshot.root == Node(children: [(Key("x"), .string("now"))]))
            }
        }
    }

    /// The namespace may have been there all the time: the loaded state is compared with the database.
    @Test func itIsCompared() throws {
        try withDatabase { url in
            try exchangeWhileItIsRead(url) {
                $0.expect("test", wasAway: false)
            } _: { namespace in
                #expect(namespace.snapshot.root == Node(children: [(Key("x"), .string("before"))]))
                #expect(eventually { namespace.hasEnded })
            }
        }
    }

    /// A name that was missing a moment ago may exist now.
    @Test func itIsLookedUpAgain() throws {
        try withDatabase { url in
            let engine = try TestEngine(url) { settings, _ in settings.createsNamespaces = false }
            defer { engine.stop() }
            guard case .failure(.unknownNamespace) = engine.load("test") else {
                Issue.record("there is none")
                return
            }
            let connection = try LogConnection(url)
            defer { connection.close() }
            _ = try connection.namespace(named: "test", creating: true)
            engine.engine.expect("test", wasAway: false)
            #expect(try engine.load("test").get().name == "test")
        }
    }
}
