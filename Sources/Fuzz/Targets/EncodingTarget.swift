import Compression
import Glibc

extension FuzzTarget {
    /// Compressed bodies. The first byte selects the treatment of the input: as a compressed body, or as a body to
    /// compress, corrupt and decompress, so that mutations get past the checksum.
    static let encoding = FuzzTarget(
        name: "encoding",
        corpus: [
            [0] + (Gzip.compress(Array("{\"a\":1}".utf8)) ?? []), [0, 0x1F, 0x8B, 8, 4, 0, 0, 0, 0, 0, 3, 1, 0, 0],
            [0, 0x78, 0x9C, 0xAB, 0xAE, 5, 0, 1, 0x75, 0, 0xF9], [0, 0x1F, 0x8B, 8, 0x1F],
            [1] + Array("{\"a\":1}".utf8),
            [1] + [UInt8](repeating: 0x61, count: 500), [2, 9] + Array("abcabcabc".utf8),
            [3, 200] + Array("{\"b\":[1,2]}".utf8),
        ],
        tokens: [
            [0x1F, 0x8B], [0x1F, 0x8B, 8], [0, 0, 0xFF, 0xFF], [0x78, 0x9C], [3, 0], [0xFF, 0xFF], [0x4B, 4], [0],
            [0, 0, 0, 0],
        ]
    ) { input, summary in
        guard let mode = input.first else { return nil }
        let rest = Array(input.dropFirst())
        switch mode % 4 {
        case 0: return foreign(rest, &summary)
        case 1: return whole(rest, &summary)
        case 2: return expanding(rest, &summary)
        default: return spoiled(rest, &summary)
        }
    }.measuring { _ = try? Gzip.decompress($0, limit: 1 << 16) }

    private static let limit = 1 << 16

    /// Checks that the result for arbitrary bytes is within the limit, and does not depend on the pieces in which the
    /// bytes arrive.
    private static func foreign(_ compressed: [UInt8], _ summary: inout Summary) -> String? {
        let before = peakMemory()
        let decompressed: [UInt8]?
        do throws(GzipError) {
            decompressed = try Gzip.decompress(compressed, limit: limit)
        } catch {
            summary.note(error == .damaged ? 1 : 2)
            decompressed = nil
        }
        if peakMemory() - before > 16 << 20 { return "decompression took more than 16 MiB beyond its limit" }
        if let decompressed {
            summary.noteSize(decompressed.count)
            if decompressed.count > limit { return "\(decompressed.count) bytes beyond a limit of \(limit)" }
        }
        guard let pieces = inPieces(compressed, of: 1 + compressed.count / 3) else {
            return decompressed == nil ? nil : "pieces of the input are refused"
        }
        return pieces == decompressed ? nil : "pieces of the input decompress to other bytes"
    }

    private static func inPieces(_ compressed: [UInt8], of size: Int) -> [UInt8]? {
        guard var decompressor = try? Gzip.Unpacker() else { return nil }
        var decompressed: [UInt8] = []
        for start in stride(from: 0, to: compressed.count, by: size) {
            let piece = Array(compressed[start..<min(start + size, compressed.count)])
            do { try decompressor.append(piece, to: &decompressed, limit: limit) } catch { return nil }
        }
        return decompressor.isAtEnd ? decompressed : nil
    }

    /// Checks that a compressed body decompresses to itself, alone and concatenated, and that a truncated one does not.
    private static func whole(_ bytes: [UInt8], _ summary: inout Summary) -> String? {
        guard let compressed = Gzip.compress(bytes, level: Int32(1 + bytes.count % 9)) else {
            return "the input can't be compressed"
        }
        guard Gzip.isGzip(compressed) else { return "the compressed input is not recognized as gzip" }
        guard (try? Gzip.decompress(compressed, limit: bytes.count)) == bytes else {
            return "the compressed input decompresses to other bytes"
        }
        guard (try? Gzip.decompress(compressed + compressed, limit: 2 * bytes.count)) == bytes + bytes else {
            return "two members decompress to other bytes"
        }
        summary.noteSize(compressed.count)
        if !bytes.isEmpty, (try? Gzip.decompress(compressed, limit: bytes.count - 1)) != nil {
            return "the limit is exceeded"
        }
        // All truncations of short bodies, and some of longer ones. A header has ten bytes, a trailer eight.
        for end in stride(from: compressed.count - 1, through: 0, by: -max(1, compressed.count / 40)) {
            if (try? Gzip.decompress(Array(compressed[..<end]), limit: limit)) != nil {
                return "\(end) of \(compressed.count) bytes are accepted as the whole body"
            }
        }
        return nil
    }

    /// Checks that a body that expands to many times its size is rejected with memory in proportion to the limit.
    private static func expanding(_ bytes: [UInt8], _ summary: inout Summary) -> String? {
        guard let count = bytes.first, bytes.count > 1 else { return nil }
        let piece = Array(bytes.dropFirst())
        let large = Array(repeatElement(piece, count: 1 + Int(count) * 40).joined())
        guard let compressed = Gzip.compress(large) else { return "the input can't be compressed" }
        summary.noteSize(large.count)
        let before = peakMemory()
        do throws(GzipError) {
            let decompressed = try Gzip.decompress(compressed, limit: limit)
            guard large.count <= limit, decompressed == large else {
                return "the compressed input decompresses to other bytes"
            }
        } catch {
            guard error == .tooLarge(limit: limit), large.count > limit else { return "\(large.count) bytes: \(error)" }
        }
        return peakMemory() - before > 16 << 20 ? "decompression took more than 16 MiB beyond its limit" : nil
    }

    /// Checks that a compressed body with a changed byte is rejected, or has the same result if that byte is not
    /// significant.
    private static func spoiled(_ bytes: [UInt8], _ summary: inout Summary) -> String? {
        guard let seed = bytes.first, var compressed = Gzip.compress(bytes) else { return nil }
        let index = Int(seed) % compressed.count
        compressed[index] ^= 1 << (bytes.count % 8)
        guard let decompressed = try? Gzip.decompress(compressed, limit: limit) else {
            summary.note(index)
            return nil
        }
        return decompressed == bytes ? nil : "a damaged body decompresses to other bytes"
    }

    /// Returns the peak memory of the process, in bytes.
    private static func peakMemory() -> Int {
        var usage = rusage()
        getrusage(RUSAGE_SELF.rawValue, &usage)
        return usage.ru_maxrss * 1024
    }
}
