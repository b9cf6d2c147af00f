import ClientCore
import Glibc
import SQLite
import TestSupport
import Testing
import Tree

@testable import PathmirrorClient

@Suite struct StoreDamageTests {
    /// Makes a file with writes and enough server data for many pages.
    private func makeFile(_ path: String) throws {
        let store = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
        for number in 1...50 as ClosedRange<Int64> { store.save(Self.write(number)) }
        let nodes = (0..<500).map { (Key("k\($0)"), Node(children: [(Key("text"), .string("some text \($0)"))])) }
        store.setServerData(Node(children: nodes), at: Path(splitting: "data"))
        let spec = QuerySpec(path: Path(splitting: "data"))
        store.save(TrackedQuery(id: 1, spec: spec, lastUse: 1, isComplete: true, isActive: false))
        store.close()
    }

    private static func write(_ number: Int64) -> PendingWrite {
        PendingWrite(
            id: WriteID(rawValue: number), path: Path(splitting: "a/\(number)"),
            content: .overwrite(.string("write \(number)")))
    }

    /// Opens the file, uses all of it, and checks that it works from then on. Returns the notices.
    private func use(_ path: String) throws -> [StorageNotice] {
        var notices: [StorageNotice] = []
        let store = try SQLiteClientStore(path: path) { notices.append($0) }
        for write in store.pendingWrites() { #expect(write == Self.write(write.id.rawValue)) }
        _ = store.serverData(at: .root)
        _ = store.serverData(at: Path(splitting: "data/k77/text"))
        for query in store.trackedQueries() { _ = store.trackedKeys(query.id) }
        store.save(Self.write(1000))
        store.setServerData(.int(1), at: Path(splitting: "new"))
        store.setServerData(.null, at: Path(splitting: "data"))
        store.commit()
        #expect(store.isUsable, "\(notices)")
        store.close()
        let again = try SQLiteClientStore(path: path) { Issue.record("\($0)") }
        #expect(again.pendingWrites().contains(Self.write(1000)))
        #expect(again.serverData(at: Path(splitting: "new")) == .int(1))
        again.close()
        return notices
    }

    @Test(arguments: ["empty", "text", "zeros", "header"]) func aFileThatIsNoneIsSetAside(kind: String) throws {
        let folder = TemporaryFolder.path("store-damage")
        defer { TemporaryFolder.remove(folder) }
        let path = folder + "/store"
        try makeFile(path)
        var bytes = try Self.bytes(of: path)
        switch kind {
        case "empty": bytes = []
        case "text": bytes = Array(String(repeating: "no database ", count: 500).utf8)
        case "zeros": bytes = [UInt8](repeating: 0, count: bytes.count)
        default: bytes[0] ^= 1
        }
        try Self.write(bytes, to: path)
        let notices = try use(path)
        // An empty file counts as a new one.
        #expect(notices.count == (kind == "empty" ? 0 : 1))
        guard case .setAside(_, let newName, _, _)? = notices.first else { return }
        #expect(try Self.bytes(of: newName) == bytes)
    }

    @Test(arguments: 1...100 as ClosedRange<UInt64>) func bitsThatFlipAreNoTrap(seed: UInt64) throws {
        let folder = TemporaryFolder.path("store-damage")
        defer { TemporaryFolder.remove(folder) }
        let path = folder + "/store"
        try makeFile(path)
        var random = SeededGenerator(seed: seed)
        var bytes = try Self.bytes(of: path)
        if random.oneIn(4) { bytes = Array(bytes.prefix(random.below(bytes.count))) }
        for _ in 0..<(1 + random.below(20)) where !bytes.isEmpty {
            bytes[random.below(bytes.count)] = UInt8(random.below(256))
        }
        try Self.write(bytes, to: path)
        _ = try use(path)
    }

    @Test func writesOfADamagedFileAreTakenOver() throws {
        let folder = TemporaryFolder.path("store-damage")
        defer { TemporaryFolder.remove(folder) }
        let path = folder + "/store"
        try makeFile(path)
        // The rows of server data are no longer valid values, though SQLite considers the file intact.
        let connection = try SQLiteConnection(.file(path))
        try connection.execute("UPDATE cache SET value = x'05FF' WHERE path = (SELECT max(path) FROM cache)")
        connection.close()
        var notices: [StorageNotice] = []
        let store = try SQLiteClientStore(path: path) { notices.append($0) }
        #expect(store.pendingWrites().count == 50)
        store.save(Self.write(51))
        store.removeWrite(WriteID(rawValue: 1))
        #expect(store.generation == 0)
        #expect(store.serverData(at: .root).isNull)
        #expect(store.generation == 1)
        #expect(store.pendingWrites() == (2...51).map(Self.write))
        guard case .setAside(path, _, 50, _)? = notices.first, notices.count == 1 else {
            Issue.record("\(notices)")
            return
        }
        store.close()
    }

    @Test func aDamagedWriteIsNotSent() throws {
        let folder = TemporaryFolder.path("store-damage")
        defer { TemporaryFolder.remove(folder) }
        let path = folder + "/store"
        try makeFile(path)
        let connection = try SQLiteConnection(.file(path))
        try connection.execute("UPDATE writes SET content = x'00' || content WHERE id = 7")
        connection.close()
        var notices: [StorageNotice] = []
        let store = try SQLiteClientStore(path: path) { notices.append($0) }
        #expect(notices == [.writesDamaged(file: path, count: 1)])
        #expect(store.pendingWrites().map(\.id.rawValue) == Array(1...50).filter { $0 != 7 })
        store.close()
    }

    static func bytes(of path: String) throws -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        try #require(descriptor >= 0, "\(path)")
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 65_536)
        while case let count = read(descriptor, &part, part.count), count > 0 { bytes += part.prefix(count) }
        return bytes
    }

    static func write(_ bytes: [UInt8], to path: String) throws {
        let descriptor = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC)
        try #require(descriptor >= 0, "\(path)")
        defer { close(descriptor) }
        #expect(Glibc.write(descriptor, bytes, bytes.count) == bytes.count)
    }
}
