import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

@testable import Engine

/// Checks the work that is done under the head's lock.
@Suite struct LockedHeadTests {
    /// An entry that can't be read under the lock fails the attempt, and the lock is released.
    @Test func theLockIsGivenBackWhereTheLogCannotBeRead() throws {
        try withDatabase { url in
            let core = EngineCore(
                url: url, settings: EngineSettings(), connectionSettings: LogConnection.Settings(),
                metrics: EngineMetrics(), logger: Logger(level: .error, descriptor: -1))
            let connection = try LogConnection(url)
            defer { connection.close() }
            let committer = CommitterContext(core, index: 0, wake: try WakeHandle())
            let loader = NamespaceLoader(core, core.makeHost(), committer.stallMeters)
            _ = try connection.namespace(named: "locked", creating: true)
            var job = LoadQueue.Job(name: "locked")
            guard case .loaded(let namespace) = try loader.load(&job, connection) else {
                Issue.record("it can be loaded")
                return
            }
            let other = try LogConnection(url)
            defer { other.close() }
            _ = try other.sql.execute("select pathmirror.set('locked', '/a', '1')")
            try other.sql.executeScript("update pathmirror.log set changes = '1'")
            #expect(throws: LogStoreError.self) { try committer.follower.lockHead(namespace, connection) }
            #expect(connection.isOpen && !connection.sql.isInTransaction)
            // The lock is free.
            try other.sql.executeScript("set lock_timeout = '2s'")
            _ = try other.sql.execute("select pathmirror.set('locked', '/b', '2')")
        }
    }
}
