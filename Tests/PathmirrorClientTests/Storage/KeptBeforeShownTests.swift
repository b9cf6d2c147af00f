import Foundation
import SQLite
import Synchronization
import TestSupport
import Testing

@testable import PathmirrorClient

/// Checks that data shown to an app survives when the app is killed.
@Suite struct KeptBeforeShownTests {
    /// The listener's callback reads the database's files: each write that it is shown is in them already.
    @Test func listenersHearOfAWriteThatIsOnDisk() async throws {
        let folder = TemporaryFolder.path("client-kept")
        defer { TemporaryFolder.remove(folder) }
        let database = TestDatabases.make(url: "http://127.0.0.1:1", directory: folder)
        database.isPersistenceEnabled = true
        database.goOffline()
        let reference = database.reference(withPath: "notes")
        let shown = Atomic<Int>(0)
        let missing = Mutex<[String]>([])
        reference.observe(.childAdded) { note in
            let count = shown.add(1, ordering: .relaxed).newValue
            do {
                let kept = try Self.keptWrites(below: folder)
                if kept < count {
                    missing.withLock { $0.append("\(note.key): \(kept) of \(count) writes are on disk") }
                }
            } catch { missing.withLock { $0.append("\(error)") } }
        }
        for number in 1...30 {
            reference.child("\(number)").setValue(number) { _, _ in }
            try await until("it is shown") { shown.load(ordering: .relaxed) == number }
        }
        #expect(missing.withLock(\.self) == [])
        await database.app?.delete()
    }

    /// Counts the pending writes in a copy of the database's files, because the database locks the originals.
    private static func keptWrites(below folder: String) throws -> Int {
        let copy = TemporaryFolder.path("client-kept-copy")
        defer { TemporaryFolder.remove(copy) }
        try FileManager.default.copyItem(atPath: folder, toPath: copy)
        let names = FileManager.default.enumerator(atPath: copy)?.compactMap { $0 as? String } ?? []
        guard let name = names.first(where: { $0.hasSuffix(".sqlite") }) else { return 0 }
        let connection = try SQLiteConnection(.file("\(copy)/\(name)"))
        defer { connection.close() }
        return StoreFile.rescuedWrites(connection).count
    }
}
