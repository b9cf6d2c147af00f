import Glibc
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks the file of pages, and the bookkeeping of its free parts.
@Suite struct PageFileTests {
    static let logger = Logger(level: .error, descriptor: -1)

    @Test func whatIsWrittenIsReadUntilItIsFreed() throws {
        try withScratchDirectory { directory in
            let file = try PageFile(in: directory, mostBytes: 1 << 20, Self.logger) { fatalError($0) }
            let texts = (0..<40).map { Array("page \($0) ".utf8) + Array(repeating: UInt8($0), count: $0 * 97) }
            let locations = try texts.map { text in try #require(text.withUnsafeBytes { file.write($0) }) }
            for (text, location) in zip(texts, locations).reversed() {
                #expect(try file.withBytes(at: location) { Array($0) } == text)
            }
            for location in locations { file.free(location) }
            #expect(file.usedBytes == 0)
        }
    }

    @Test func itTakesNoMoreThanItMay() throws {
        try withScratchDirectory { directory in
            let file = try PageFile(in: directory, mostBytes: 8_192, Self.logger) { fatalError($0) }
            let text = Array(repeating: UInt8(7), count: 1_000)
            let locations = (0..<20).compactMap { _ in text.withUnsafeBytes { file.write($0) } }
            #expect(locations.count == 8)
            file.free(locations[3])
            #expect(text.withUnsafeBytes { file.write($0) } != nil, "what was freed can be had again")
            #expect(text.withUnsafeBytes { file.write($0) } == nil)
        }
    }

    @Test func aDirectoryThatIsNotThere() {
        #expect(throws: ScratchFileError.self) {
            _ = try PageFile(in: "/nonexistent/directory", mostBytes: 1, Self.logger) { fatalError($0) }
        }
    }

    /// Bytes that the disk returns changed are not accepted as part of a tree.
    @Test func damageIsNoticed() throws {
        try withScratchDirectory { directory in
            let file = try PageFile(in: directory, mostBytes: 1 << 20, Self.logger) { fatalError($0) }
            let location = try #require(Array("some text".utf8).withUnsafeBytes { file.write($0) })
            let other = try #require(Array(repeating: UInt8(1), count: 400).withUnsafeBytes { file.write($0) })
            // This corresponds to the first page written at the offset of the second.
            let moved = PageLocation(offset: other.offset, length: location.length)
            #expect(throws: PageFileError.self) { try file.withBytes(at: moved) { _ in } }
            let after = PageLocation(offset: 1 << 16, length: location.length)
            #expect(throws: PageFileError.self) { try file.withBytes(at: after) { _ in } }
        }
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func partsNeverOverlap(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var extents = PageExtents(limit: 1 << 20)
        var taken: [(offset: Int64, count: Int)] = []
        for _ in 0..<600 {
            if taken.isEmpty || random.below(3) > 0 {
                let count = 1 + random.below([100, 3_000, 70_000][random.below(3)])
                guard let offset = extents.take(count) else { continue }
                let end = offset + Int64(count)
                #expect(taken.allSatisfy { offset >= $0.offset + Int64($0.count) || end <= $0.offset })
                #expect(
                    PageExtents.size(for: count) >= count && PageExtents.size(for: count) <= max(512, count * 9 / 8 + 1)
                )
                taken.append((offset, count))
            } else {
                let (offset, count) = taken.remove(at: random.below(taken.count))
                #expect(extents.give(offset, count) == taken.isEmpty)
            }
            #expect(extents.used == taken.reduce(0) { $0 + PageExtents.size(for: $1.count) })
            #expect(extents.end <= 1 << 20)
        }
    }
}

/// Runs `body` with an empty directory of its own, and checks that it is empty again afterwards.
func withScratchDirectory<Value>(_ body: (String) throws -> Value) throws -> Value {
    var name = Array("/tmp/pathmirror-pages-XXXXXX".utf8CString)
    let directory = String(cString: try #require(mkdtemp(&name)))
    defer { #expect(rmdir(directory) == 0, "nothing is left in it") }
    return try body(directory)
}
