import Compression
import Testing

@Suite struct GzipTests {
    private static func bytes(_ count: Int, seed: UInt64) -> [UInt8] {
        var state = seed
        return (0..<count).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 33) & 0x1F
        }
    }

    @Test(arguments: [0, 1, 2, 1_000, 65_536, 65_537, 300_000])
    func roundTrip(count: Int) throws {
        let plain = Self.bytes(count, seed: 7)
        let compressed = try #require(Gzip.compress(plain))
        #expect(Gzip.isGzip(compressed))
        #expect(try Gzip.decompress(compressed, limit: count) == plain)
        if count > 1_000 { #expect(compressed.count < count) }
    }

    /// Checks that a small body cannot expand to a huge one.
    @Test func limit() throws {
        let compressed = try #require(Gzip.compress([UInt8](repeating: 0, count: 1_000_000)))
        #expect(throws: GzipError.tooLarge(limit: 999_999)) { try Gzip.decompress(compressed, limit: 999_999) }
        #expect(try Gzip.decompress(compressed, limit: 1_000_000).count == 1_000_000)
    }

    /// Checks that a truncated body is an error at any length.
    @Test func cutShort() throws {
        let compressed = try #require(Gzip.compress(Self.bytes(5_000, seed: 3)))
        for count in [0, 1, 2, 10, compressed.count / 2, compressed.count - 9, compressed.count - 1] {
            #expect(throws: GzipError.damaged) { try Gzip.decompress(Array(compressed.prefix(count)), limit: 10_000) }
        }
    }

    @Test func damaged() throws {
        var compressed = try #require(Gzip.compress(Self.bytes(5_000, seed: 3)))
        compressed[compressed.count / 2] ^= 0xFF
        #expect(throws: GzipError.damaged) { try Gzip.decompress(compressed, limit: 10_000) }
        #expect(throws: GzipError.damaged) { try Gzip.decompress(Array("not gzip".utf8), limit: 10_000) }
    }

    @Test func severalMembers() throws {
        let first = try #require(Gzip.compress(Array("one ".utf8)))
        let second = try #require(Gzip.compress(Array("two".utf8)))
        #expect(try Gzip.decompress(first + second, limit: 100) == Array("one two".utf8))
    }

    /// Checks input in pieces of any size, as read from files.
    @Test(arguments: [1, 3, 1_000])
    func pieces(size: Int) throws {
        let plain = Self.bytes(4_000, seed: 5)
        let compressed = try #require(Gzip.compress(plain))
        var decompressor = try Gzip.Unpacker()
        var decompressed: [UInt8] = []
        var rest = compressed[...]
        while !rest.isEmpty {
            try decompressor.append(Array(rest.prefix(size)), to: &decompressed)
            rest = rest.dropFirst(size)
        }
        let isAtEnd = decompressor.isAtEnd
        #expect(isAtEnd)
        #expect(decompressed == plain)
    }
}
