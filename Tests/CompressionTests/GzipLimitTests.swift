import Compression
import Testing

/// Tests of expensive and damaged bodies, and of the formats that other programs produce.
@Suite struct GzipLimitTests {
    private func compressed(_ plain: [UInt8], level: Int32 = 9) throws -> [UInt8] {
        try #require(Gzip.compress(plain, level: level))
    }

    @Test(arguments: [1, 2, 6, 9] as [Int32]) func levels(level: Int32) throws {
        let plain = Array(String(repeating: "a line of text, again and again\n", count: 500).utf8)
        let compressed = try compressed(plain, level: level)
        #expect(compressed.count * 10 < plain.count)
        #expect(try Gzip.decompress(compressed, limit: plain.count) == plain)
    }

    /// Checks that the limit is exact, for sizes around that of the output's pieces.
    @Test(arguments: [1, 100, 65_535, 65_536, 65_537, 131_072, 200_000]) func exactLimits(count: Int) throws {
        let compressed = try compressed([UInt8](repeating: 7, count: count))
        #expect(try Gzip.decompress(compressed, limit: count).count == count)
        #expect(try Gzip.decompress(compressed, limit: .max).count == count)
        for limit in [0, count / 2, count - 1] where limit < count {
            #expect(throws: GzipError.tooLarge(limit: limit)) { try Gzip.decompress(compressed, limit: limit) }
        }
    }

    /// Checks that a body that would expand from a megabyte to a gigabyte stops at the limit, with memory and time in
    /// proportion to the limit.
    @Test func bombs() throws {
        let layer = try compressed([UInt8](repeating: 0, count: 10 << 20))
        #expect(layer.count < 20_000)
        var asked = 0
        #expect(throws: GzipError.tooLarge(limit: 1 << 20)) {
            try Gzip.decompress(layer, limit: 1 << 20) {
                asked += $0
                return true
            }
        }
        #expect(asked <= 1 << 20)
        // Many members in a row do not circumvent the limit.
        let members = Array(repeatElement(layer, count: 20).joined())
        #expect(throws: GzipError.tooLarge(limit: 11 << 20)) { try Gzip.decompress(members, limit: 11 << 20) }
        // Compressed twice: decompressing once gives the inner body.
        let twice = try compressed(layer)
        #expect(try Gzip.decompress(twice, limit: layer.count) == layer)
    }

    @Test func roomIsAskedForBeforeItIsTaken() throws {
        let plain = [UInt8](repeating: 1, count: 300_000)
        let compressed = try compressed(plain)
        var pieces: [Int] = []
        let decompressed = try Gzip.decompress(compressed, limit: .max) { count in
            pieces.append(count)
            return true
        }
        #expect(decompressed == plain)
        #expect(pieces.reduce(0, +) == plain.count)
        #expect((pieces.max() ?? 0) <= 64 * 1024)
        var granted = 2
        #expect(throws: GzipError.noRoom) {
            try Gzip.decompress(compressed, limit: .max) { _ in
                granted -= 1
                return granted >= 0
            }
        }
    }

    /// Checks zlib's format, which `Content-Encoding: deflate` means. The example comes from another program.
    @Test func zlibStreams() throws {
        let abc: [UInt8] = [0x78, 0x9C, 0x4B, 0x4C, 0x4A, 0x06, 0x00, 0x02, 0x4D, 0x01, 0x27]
        #expect(try Gzip.decompress(abc, limit: 10) == Array("abc".utf8))
        #expect(!Gzip.isGzip(abc))
        // A raw stream without a header is in neither format.
        #expect(throws: GzipError.damaged) { try Gzip.decompress(Array(abc[2..<7]), limit: 10) }
    }

    /// Checks a file with a name and a comment in its header.
    @Test func headersWithFields() throws {
        var compressed = try compressed(Array("text".utf8))
        // FNAME and FCOMMENT.
        compressed[3] = 0x18
        compressed.insert(contentsOf: Array("name.txt\0a comment\0".utf8), at: 10)
        #expect(try Gzip.decompress(compressed, limit: 10) == Array("text".utf8))
    }

    @Test func nothing() throws {
        let empty = try compressed([])
        #expect(try Gzip.decompress(empty, limit: 0) == [])
        #expect(throws: GzipError.damaged) { try Gzip.decompress([], limit: 10) }
        #expect(!Gzip.isGzip([]) && !Gzip.isGzip([0x1F]) && Gzip.isGzip([0x1F, 0x8B]))
    }

    /// Checks that a short body with any changed byte is refused, or gives the same text.
    @Test func everyByteCounts() throws {
        let plain = Array("{\"a\":[1,2,3],\"b\":\"text text text\"}".utf8)
        let compressed = try compressed(plain)
        var refused = 0
        for index in compressed.indices {
            for bit in [0, 3, 7] {
                var other = compressed
                other[index] ^= 1 << UInt8(bit)
                guard let decompressed = try? Gzip.decompress(other, limit: 10_000) else {
                    refused += 1
                    continue
                }
                #expect(decompressed == plain, "byte \(index)")
            }
        }
        #expect(refused > compressed.count * 2)
    }

    @Test func everyPrefixIsDamaged() throws {
        let compressed = try compressed(Array("one two three, one two three".utf8))
        for end in compressed.indices {
            #expect(throws: GzipError.damaged) { try Gzip.decompress(Array(compressed[..<end]), limit: 1_000) }
        }
        // Bytes after the end are not a member.
        for after in [[0], [0x1F], [1, 2, 3]] as [[UInt8]] {
            #expect(throws: GzipError.damaged) { try Gzip.decompress(compressed + after, limit: 1_000) }
        }
    }

    @Test func aDecompressorKeepsItsPosition() throws {
        let (one, two) = (try compressed(Array("one".utf8)), try compressed(Array("two".utf8)))
        var decompressor = try Gzip.Unpacker()
        var output: [UInt8] = []
        var ends = [decompressor.isAtEnd]
        for piece in [Array(one.dropLast(3)), Array(one.suffix(3)), Array(two.prefix(5)), Array(two.dropFirst(5)), []] {
            try decompressor.append(piece, to: &output, limit: 6)
            ends.append(decompressor.isAtEnd)
        }
        #expect(ends == [false, false, true, false, true, true])
        #expect(output == Array("onetwo".utf8))
        do throws(GzipError) {
            try decompressor.append(one, to: &output, limit: 6)
            Issue.record("the limit is passed")
        } catch {
            #expect(error == .tooLarge(limit: 6))
        }
    }
}
