import ClientCore
import SQLite
import TestSupport
import Testing
import Tree
import Wire

@testable import PathmirrorClient

/// Files of older versions of the library.
@Suite struct StoreVersionTests {
    /// Version 1 did not know as of which entry of the server's log data is.
    @Test func aFileOfVersionOneGoesOn() throws {
        let folder = TemporaryFolder.path("store-older")
        defer { TemporaryFolder.remove(folder) }
        let path = folder + "/store"
        let spec = QuerySpec(path: Path(splitting: "a"))
        let mark = LogMark(seq: 7, resumption: "7-abc")
        var query = TrackedQuery(id: 1, spec: spec, lastUse: 1, isComplete: true, isActive: false, mark: mark)
        let store = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
        store.setServerData(.int(1), at: spec.path)
        store.save(query)
        store.close()
        let kept = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
        #expect(kept.trackedQueries() == [query])
        kept.close()
        let connection = try SQLiteConnection(.file(path))
        try connection.execute("ALTER TABLE queries DROP COLUMN mark; PRAGMA user_version = 1")
        connection.close()
        let again = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
        query.mark = nil
        #expect(again.trackedQueries() == [query] && again.serverData(at: spec.path) == .int(1))
        query.mark = LogMark(seq: 9)
        again.save(query)
        again.close()
        let last = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
        #expect(last.trackedQueries() == [query])
        last.close()
    }
}
