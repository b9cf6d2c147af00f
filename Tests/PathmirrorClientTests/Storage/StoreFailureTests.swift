import ClientCore
import Glibc
import SQLite
import TestSupport
import Testing
import Tree

@testable import PathmirrorClient

/// Checks that data that can't be saved is reported once, without further effects.
@Suite struct StoreFailureTests {
    private let data = Node(children: (0..<300).map { (Key("k\($0)"), .string(String(repeating: "x", count: 100))) })

    private func write(_ number: Int64) -> PendingWrite {
        PendingWrite(
            id: WriteID(rawValue: number), path: Path(splitting: "a/\(number)"),
            content: .overwrite(.string(String(repeating: "w", count: 500))))
    }

    @Test func aFullDiskEndsKeepingOnce() throws {
        let folder = TemporaryFolder.path("store-full")
        defer { TemporaryFolder.remove(folder) }
        let path = folder + "/store"
        var notices: [StorageNotice] = []
        let store = try SQLiteClientStore(path: path) { notices.append($0) }
        store.save(write(1))
        store.save(write(2))
        store.setServerData(data, at: Path(splitting: "first"))
        store.commit()
        store.limitPages(to: 40)
        for number in 3...200 as ClosedRange<Int64> {
            store.save(write(number))
            store.setServerData(data, at: Path(splitting: "more\(number)"))
            store.commit()
        }
        #expect(!store.isUsable)
        guard case .stopped(path, _)? = notices.first, notices.count == 1 else {
            Issue.record("\(notices)")
            return
        }
        #expect(store.serverData(at: Path(splitting: "first")).isNull)
        // Answered writes are removed from the file all the same.
        store.removeWrite(WriteID(rawValue: 1))
        store.close()
        let again = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
        let found = again.pendingWrites().map(\.id.rawValue)
        #expect(found.first == 2)
        #expect(found == Array(2...(found.last ?? 0)))
        #expect(again.serverData(at: Path(splitting: "first")) == data)
        again.close()
    }

    @Test func aStoreHasOneOwner() throws {
        let folder = TemporaryFolder.path("store-owner")
        defer { TemporaryFolder.remove(folder) }
        let store = try SQLiteClientStore(path: folder + "/store") { Issue.record("\($0)") }
        store.save(write(1))
        store.commit()
        #expect(throws: StorageError.inUse(file: folder + "/store")) {
            _ = try SQLiteClientStore(path: folder + "/store") { Issue.record("\($0)") }
        }
        store.save(write(2))
        store.close()
        let second = try SQLiteClientStore(path: folder + "/store") { Issue.record("\($0)") }
        #expect(second.pendingWrites().count == 2)
        second.close()
    }

    @Test func aLaterVersionIsLeftAlone() throws {
        let folder = TemporaryFolder.path("store-version")
        defer { TemporaryFolder.remove(folder) }
        let path = folder + "/store"
        let store = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
        store.save(write(1))
        store.close()
        let connection = try SQLiteConnection(.file(path))
        try connection.execute("PRAGMA user_version = 99")
        connection.close()
        do {
            _ = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
            Issue.record("it opened")
        } catch {
            guard case .laterVersion(path, _) = error else {
                Issue.record("\(error)")
                return
            }
        }
        #expect(TemporaryFolder.names(in: folder).filter { $0.contains("damaged") }.isEmpty)
    }

    @Test func whatCantBeMadeIsSaid() {
        #expect(throws: StorageError.self) {
            _ = try SQLiteClientStore(path: "/proc/nothing/store") { Issue.record("\($0)") }
        }
    }

    @Test func filesAreTheirOwners() throws {
        let folder = TemporaryFolder.path("store-mode")
        defer { TemporaryFolder.remove(folder) }
        let store = try SQLiteClientStore(path: folder + "/store") { Issue.record("\($0)") }
        store.save(write(1))
        store.commit()
        let names = TemporaryFolder.names(in: folder)
        #expect(names.count >= 2)
        for name in names {
            var status = stat()
            #expect(stat(folder + "/" + name, &status) == 0)
            #expect(status.st_mode & 0o077 == 0, "\(name)")
        }
        var status = stat()
        #expect(stat(folder, &status) == 0)
        #expect(status.st_mode & 0o777 == 0o700)
        store.close()
    }
}
