import ClientCore
import Foundation
import Glibc
import Runtime
import SQLite
import TestSupport
import Testing
import Tree

@testable import PathmirrorClient

/// Checks files that were tampered with, or that the library never leaves: only their data is lost.
@Suite struct OddFileTests {
    private static let write = PendingWrite(
        id: WriteID(rawValue: 7), path: Path(splitting: "a/b"), content: .overwrite(.string("kept")))

    private func makeFile(_ path: String) throws {
        let store = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
        store.save(Self.write)
        store.setServerData(Node(children: [(Key("k"), .int(1))]), at: Path(splitting: "data"))
        let spec = QuerySpec(path: Path(splitting: "data"))
        store.save(TrackedQuery(id: 1, spec: spec, lastUse: 1, isComplete: true, isActive: false))
        store.close()
    }

    /// Uses all of a file as a database does. Returns the notices.
    private func use(_ path: String) throws -> [StorageNotice] {
        var notices: [StorageNotice] = []
        let store = try SQLiteClientStore(path: path) { notices.append($0) }
        let cache = CacheManager(store: store)
        let numbers = WriteNumbers()
        for write in cache.pendingWrites() { numbers.skip(to: write.id) }
        let next = PendingWrite(id: numbers.next(), path: Path(splitting: "new"), content: .overwrite(.int(2)))
        cache.save(next)
        for name in ["data", "elsewhere"] {
            let spec = QuerySpec(path: Path(splitting: name))
            _ = cache.activate(spec)
            cache.applyServer(.string(name), at: spec.path, of: spec)
            cache.complete(spec)
            cache.deactivate(spec)
        }
        cache.flush()
        #expect(store.isUsable, "\(notices)")
        #expect(cache.cached(QuerySpec(path: Path(splitting: "elsewhere"))).isComplete)
        store.close()
        let again = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
        #expect(again.pendingWrites().contains(next))
        again.close()
        return notices
    }

    private func withFile(_ body: (String) throws -> Void) throws {
        let folder = TemporaryFolder.path("odd-file")
        defer { TemporaryFolder.remove(folder) }
        try makeFile(folder + "/store")
        try body(folder + "/store")
    }

    @Test(arguments: [
        "UPDATE facts SET value = 9223372036854775807 WHERE name = 'cache_bytes'",
        "UPDATE facts SET value = -9223372036854775808 WHERE name = 'cache_bytes'",
        "UPDATE facts SET value = 'text' WHERE name = 'cache_bytes'",
        "UPDATE queries SET last_use = 9223372036854775807",
        "UPDATE queries SET id = 9223372036854775807",
        "UPDATE queries SET id = -9223372036854775808",
        "UPDATE writes SET id = 9223372036854775807",
        "UPDATE writes SET content = zeroblob(100000)",
        "UPDATE cache SET value = zeroblob(100000)",
        "INSERT INTO queries VALUES (2, replace(hex(zeroblob(3000)), '00', 'a' || char(0)), x'0200000000', 1, 1, 0, NULL)",
        "INSERT INTO cache VALUES (CAST(replace(hex(zeroblob(30000)), '00', 'a' || char(0)) AS BLOB), x'80')",
        "DROP TABLE query_keys",
        "DROP TABLE cache; CREATE VIEW cache AS SELECT x'6100' AS path, x'80' AS value",
        """
        CREATE TRIGGER t AFTER INSERT ON cache BEGIN DELETE FROM writes; END;
        CREATE TRIGGER u AFTER INSERT ON queries BEGIN INSERT INTO queries SELECT NULL, path, query, 0, 1, 0, NULL FROM queries; END
        """,
    ])
    func whatNoProgramOfOursWrites(sql: String) throws {
        try withFile { path in
            let connection = try SQLiteConnection(.file(path))
            try connection.execute(sql)
            connection.close()
            _ = try use(path)
            // Reads the whole file, as a listener at the root does.
            let store = try SQLiteClientStore(path: path) { _ in }
            _ = store.serverData(at: .root)
            #expect(store.pendingWrites().allSatisfy { $0 == Self.write || $0.path == Path(splitting: "new") })
            store.close()
        }
    }

    /// A file's triggers are not run: saved writes stay.
    @Test func triggersOfAFile() throws {
        try withFile { path in
            let connection = try SQLiteConnection(.file(path))
            try connection.execute("CREATE TRIGGER t AFTER INSERT ON writes BEGIN DELETE FROM writes; END")
            connection.close()
            _ = try use(path)
            let store = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
            #expect(store.pendingWrites().first == Self.write)
            store.close()
        }
    }

    /// A symbolic link does not make the library write into another file.
    @Test(arguments: ["", "-wal", "-journal"]) func links(suffix: String) throws {
        try withFile { path in
            let other = path + "-other"
            try "precious".write(toFile: other, atomically: false, encoding: .utf8)
            #expect(chmod(other, 0o644) == 0)
            unlink(path + suffix)
            #expect(symlink(other, path + suffix) == 0)
            #expect(throws: StorageError.self) { try SQLiteClientStore(path: path) { _ in } }
            #expect(try String(contentsOfFile: other, encoding: .utf8) == "precious")
            #expect(FilePermissions(ofFile: other)?.mode == 0o644)
        }
    }

    /// Neither a folder nor a pipe is a database; opening a pipe does not wait for its other end.
    @Test(arguments: [false, true]) func whatIsNoFile(isPipe: Bool) throws {
        try withFile { path in
            unlink(path)
            #expect((isPipe ? mkfifo(path, 0o600) : mkdir(path, 0o700)) == 0)
            #expect(throws: StorageError.self) { try SQLiteClientStore(path: path) { _ in } }
        }
    }

    /// The permissions of other users are removed from an existing file.
    @Test func permissionsOfAFile() throws {
        try withFile { path in
            #expect(chmod(path, 0o666) == 0)
            _ = try use(path)
            #expect(FilePermissions(ofFile: path)?.mode == 0o600)
        }
    }

    /// Only the newest few damaged files are kept.
    @Test func damagedFilesDontPileUp() throws {
        try withFile { path in
            let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
            for number in 1...9 {
                let old = DamagedFiles.name(of: path, at: 1_700_000_000_000 + Int64(number))
                for suffix in ["", "-wal"] { try "old".write(toFile: old + suffix, atomically: false, encoding: .utf8) }
            }
            for name in ["store.damaged-notes", "other.damaged-1"] {
                try "kept".write(toFile: folder + "/" + name, atomically: false, encoding: .utf8)
            }
            try "no database".write(toFile: path, atomically: false, encoding: .utf8)
            let notices = try use(path)
            guard case .setAside(_, let newName, _, _)? = notices.first else {
                Issue.record("\(notices)")
                return
            }
            let left = try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.contains("damaged") }
            let kept = [1_700_000_000_008, 1_700_000_000_009].map { "store.damaged-\($0)" }
            #expect(
                Set(left)
                    == Set(
                        kept + kept.map { $0 + "-wal" }
                            + [String(newName.dropFirst(folder.count + 1)), "store.damaged-notes", "other.damaged-1"]))
        }
    }
}
