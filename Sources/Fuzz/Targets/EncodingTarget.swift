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
    private static func foreign(_ packed: [UInt8], _ summary: inout Summary) -> String? {
        let before = peakMemory()
        let unpacked: [UInt8]?
        do throws(GzipError) {
            unpacked = try Gzip.decompress(packed, limit: limit)
        } catch {
            summary.note(error == .damaged ? 1 : 2)
            unpacked = nil
        }
        if peakMemory() - before > 16 << 20 { return "decompression took more than 16 MiB beyond its limit" }
        if let unpacked {
            summary.noteSize(unpacked.count)
            if unpacked.count > limit { return "\(unpacked.count) bytes beyond a limit of \(limit)" }
        }
        guard let pieces = inPieces(packed, of: 1 + packed.count / 3) else {
            return unpacked == nil ? nil : "pieces of the input are refused"
        }
        return pieces == unpacked ? nil : "pieces of the input decompress to other bytes"
    }

    private static func inPieces(_ packed: [UInt8], of size: Int) -> [UInt8]? {
        guard var unpacker = try? Gzip.Unpacker() else { return nil }
        var unpacked: [UInt8] = []
        for start in stride(from: 0, to: packed.count, by: size) {
            let piece = Array(packed[start..<min(start + size, packed.count)])
            do { try unpacker.append(piece, to: &unpacked, limit: limit) } catch { return nil }
        }
        return unpacker.isAtEnd ? unpacked : nil
    }

    /// Checks that a compressed body decompresses to itself, alone and concatenated, and that a truncated one does not.
    private static func whole(_ bytes: [UInt8], _ summary: inout Summary) -> String? {
        guard let packed = Gzip.compress(bytes, level: Int32(1 + bytes.count % 9)) else {
            return "the input can't be compressed"
        }
        guard Gzip.isGzip(packed) else { return "the compressed input is not recognized as gzip" }
        guard (try? Gzip.decompress(packed, limit: bytes.count)) == bytes else {
            return "the compressed input decompresses to other bytes"
        }
        guard (try? Gzip.decompress(packed + packed, limit: 2 * bytes.count)) == bytes + bytes else {
            return "two members decompress to other bytes"
        }
        summary.noteSize(packed.count)
        if !bytes.isEmpty, (try? Gzip.decompress(packed, limit: bytes.count - 1)) != nil {
            return "the limit is exceeded"
        }
        // All truncations of short bodies, and some of longer ones. A header has ten bytes, a trailer eight.
        for end in stride(from: packed.count - 1, through: 0, by: -max(1, packed.count / 40)) {
            if (try? Gzip.decompress(Array(packed[..<end]), limit: limit)) != nil {
                return "\(end) of \(packed.count) bytes are accepted as the whole body"
            }
        }
        return nil
    }

    /// Checks that a body that expands to many times its size is rejected with memory in proportion to the limit.
    private static func expanding(_ bytes: [UInt8], _ summary: inout Summary) -> String? {
        guard let count = bytes.first, bytes.count > 1 else { return nil }
        let piece = Array(bytes.dropFirst())
        let large = Array(repeatElement(piece, count: 1 + Int(count) * 40).joined())
        guard let packed = Gzip.compress(large) else { return "the input can't be compressed" }
        summary.noteSize(large.count)
        let before = peakMemory()
        do throws(GzipError) {
            let unpacked = try Gzip.decompress(packed, limit: limit)
            guard large.count <= limit, unpacked == large else {
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
        guard let seed = bytes.first, var packed = Gzip.compress(bytes) else { return nil }
        let index = Int(seed) % packed.count
        packed[index] ^= 1 << (bytes.count % 8)
        guard let unpacked = try? Gzip.decompress(packed, limit: limit) else {
            summary.note(index)
            return nil
        }
        return unpacked == bytes ? nil : "a damaged body decompresses to other bytes"
    }

    /// Returns the peak memory of the process, in bytes.
    private static func peakMemory() -> Int {
        var usage = rusage()
        getrusage(RUSAGE_SELF.rawValue, &usage)
        return usage.ru_maxrss * 1024
    }
}
