import ClientCore
import Glibc
import TestSupport
import Testing
import Tree

@testable import PathmirrorClient

/// Kills a process that writes at random moments, and restarts it with the same file. `PATHMIRROR_KILL_ROUNDS` sets the
/// number of rounds for a campaign.
@Suite struct StoreKillTests {
    @Test func whatWasSavedIsThereAfterAKill() throws {
        let rounds = getenv("PATHMIRROR_KILL_ROUNDS").flatMap { Int(String(cString: $0)) } ?? 12
        let folder = TemporaryFolder.path("store-kill")
        defer { TemporaryFolder.remove(folder) }
        mkdir(folder, 0o700)
        var random = SeededGenerator(seed: UInt64(rounds))
        var said = Announcements()
        for round in 0..<rounds {
            let log = "\(folder)/log\(round)"
            let process = try TestProcess([Self.program, folder + "/store"], log: log)
            #expect(try eventually { try String(contentsOfFile: log).contains("saved") })
            usleep(UInt32(random.below(60_000)))
            process.kill()
            try said.read(String(contentsOfFile: log))
            said.saved = try check(folder + "/store", said)
        }
    }

    /// Checks the file, and returns the numbers of its writes.
    private func check(_ file: String, _ said: Announcements) throws -> Set<Int64> {
        let store = try SQLiteClientStore(path: file) { Issue.record("\($0)") }
        let found = store.pendingWrites()
        #expect(found.map(\.id) == found.map(\.id).sorted())
        let ids = Set(found.map(\.id.rawValue))
        // A step may have been saved without being announced.
        #expect(said.saved.subtracting(ids).isSubset(of: said.removing))
        #expect(ids.isDisjoint(with: said.removed))
        #expect(ids.subtracting(said.saved).allSatisfy { $0 > said.saved.max() ?? 0 })
        for write in found {
            guard case .overwrite(.string(let text)) = write.content else {
                Issue.record("\(write)")
                continue
            }
            #expect(text.hasPrefix("\(write.id.rawValue),"))
            #expect(write.path.last?.text == "\(write.id.rawValue)")
        }
        let server = store.serverData(at: Path(splitting: "server"))
        guard case .int(let last) = server.child(Key("first")) else {
            store.close()
            #expect(server.isNull)
            return ids
        }
        #expect(server.child(Key("third")) == .int(last))
        #expect(server.child(Key("second")).child(Key("\(last % 100)")) == .int(last))
        store.close()
        return ids
    }

    /// The actions that the program announced as done or about to be done.
    private struct Announcements {
        var saved: Set<Int64> = []
        var removed: Set<Int64> = []
        var removing: Set<Int64> = []

        mutating func read(_ log: String) throws {
            removing = []
            for line in log.split(separator: "\n") {
                let words = line.split(separator: " ")
                guard words.count == 2, let number = Int64(words[1]) else {
                    Issue.record("\(line)")
                    continue
                }
                switch words[0] {
                case "saved": saved.insert(number)
                case "removing": removing.insert(number)
                case "removed":
                    removed.insert(number)
                    saved.remove(number)
                default: #expect(words[0] == "open")
                }
            }
        }
    }

    /// The path of the program, in the folder of the test program.
    static var program: String {
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        let path = String(decoding: buffer.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return path.split(separator: "/").dropLast().reduce("") { $0 + "/" + $1 } + "/store-writer"
    }
}

extension String {
    /// Reads a file's present content.
    init(contentsOfFile path: String) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 65_536)
        while case let count = Glibc.read(descriptor, &part, part.count), count > 0 { bytes += part.prefix(count) }
        self = String(decoding: bytes, as: UTF8.self)
    }
}
