import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

@testable import Engine

/// Checks a committer's connection: opened on demand, kept while it works, and replaced after a failure.
@Suite struct CommitterConnectionTests {
    private static func core(_ url: PostgresURL) -> EngineCore {
        EngineCore(
            url: url, settings: EngineSettings(), connectionSettings: LogConnection.Settings(),
            metrics: EngineMetrics(), logger: Logger(level: .error, descriptor: -1))
    }

    @Test func itIsOpenedOnceAndKept() throws {
        try withDatabase { url in
            let core = Self.core(url)
            let connection = CommitterConnection(core, name: "committer 3")
            #expect(!connection.isThere)
            let first = try connection.get()
            #expect(connection.isThere && first.isOpen)
            #expect(try connection.get() === first)
            // The server's history was compared with the gateway's, so the database is available.
            #expect(core.health.isUp)
            connection.drop()
            #expect(!connection.isThere && !first.isOpen)
            let second = try connection.get()
            #expect(second !== first && second.isOpen)
            connection.drop()
        }
    }

    @Test func aClosedOneIsReplaced() throws {
        try withDatabase { url in
            let connection = CommitterConnection(Self.core(url), name: "committer 0")
            let first = try connection.get()
            first.close()
            #expect(try connection.get() !== first)
            connection.drop()
        }
    }

    /// While the database counts as down, only an open connection can report that it works.
    @Test func onlyAnOpenOneAnswers() throws {
        try withDatabase { url in
            let core = Self.core(url)
            let connection = CommitterConnection(core, name: "committer 0")
            #expect(!connection.answers())
            _ = try connection.get()
            #expect(connection.answers())
            core.connections.abandonAll()
            #expect(!connection.answers())
            #expect(!connection.isThere, "a connection that does not answer is given up")
        }
    }

    /// The connection's application name identifies it as a committer's.
    @Test func itSaysWhoseItIs() throws {
        try withDatabase { url in
            let connection = CommitterConnection(Self.core(url), name: "committer 7")
            let pid = try connection.get().backendPID
            let other = try PostgresConnection(url)
            defer {
                other.close()
                connection.drop()
            }
            let rows = try other.execute("select application_name from pg_stat_activity where pid = \(pid)")
            #expect(try rows.string(0, 0) == "pathmirror committer 7")
            #expect(try rows.string(0, 0).hasPrefix(BackendName.committer))
        }
    }
}
