import ClientCore
import SQLite
import TestSupport
import Testing
import Tree
import Wire

@testable import PathmirrorClient

/// Checks files of older versions of the library.
@Suite struct StoreVersionTests {
    /// Files of version 1 lack the log positions of data.
    @Test func aFileOfVersionOneIsAccepted() throws {
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

    /// Files of version 2 lack the run of the app that made a write: such a write is sent without a name.
    @Test func aFileOfVersionTwoIsAccepted() throws {
        let folder = TemporaryFolder.path("store-older")
        defer { TemporaryFolder.remove(folder) }
        let path = folder + "/store"
        func write(_ id: Int64, _ writer: String?) -> PendingWrite {
            PendingWrite(
                id: WriteID(rawValue: id), path: Path(splitting: "a"), content: .overwrite(.int(id)),
                name: writer.flatMap { WriteName(writer: $0, number: id) })
        }
        let store = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
        store.save(write(1, nil))
        store.close()
        let connection = try SQLiteConnection(.file(path))
        try connection.execute("PRAGMA user_version = 2")
        connection.close()
        let again = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
        again.save(write(2, "writer-1"))
        #expect(again.pendingWrites() == [write(1, nil), write(2, "writer-1")])
        again.close()
        let last = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
        #expect(last.pendingWrites() == [write(1, nil), write(2, "writer-1")])
        last.close()
    }
}
