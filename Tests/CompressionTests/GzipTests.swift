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
        let packed = try #require(Gzip.compress(plain))
        #expect(Gzip.isGzip(packed))
        #expect(try Gzip.decompress(packed, limit: count) == plain)
        if count > 1_000 { #expect(packed.count < count) }
    }

    /// Checks that a small body cannot expand to a huge one.
    @Test func limit() throws {
        let packed = try #require(Gzip.compress([UInt8](repeating: 0, count: 1_000_000)))
        #expect(throws: GzipError.tooLarge(limit: 999_999)) { try Gzip.decompress(packed, limit: 999_999) }
        #expect(try Gzip.decompress(packed, limit: 1_000_000).count == 1_000_000)
    }

    /// Checks that a truncated body is an error at any length.
    @Test func cutShort() throws {
        let packed = try #require(Gzip.compress(Self.bytes(5_000, seed: 3)))
        for count in [0, 1, 2, 10, packed.count / 2, packed.count - 9, packed.count - 1] {
            #expect(throws: GzipError.damaged) { try Gzip.decompress(Array(packed.prefix(count)), limit: 10_000) }
        }
    }

    @Test func damaged() throws {
        var packed = try #require(Gzip.compress(Self.bytes(5_000, seed: 3)))
        packed[packed.count / 2] ^= 0xFF
        #expect(throws: GzipError.damaged) { try Gzip.decompress(packed, limit: 10_000) }
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
        let packed = try #require(Gzip.compress(plain))
        var unpacker = try Gzip.Unpacker()
        var unpacked: [UInt8] = []
        var rest = packed[...]
        while !rest.isEmpty {
            try unpacker.append(Array(rest.prefix(size)), to: &unpacked)
            rest = rest.dropFirst(size)
        }
        let isAtEnd = unpacker.isAtEnd
        #expect(isAtEnd)
        #expect(unpacked == plain)
    }
}
