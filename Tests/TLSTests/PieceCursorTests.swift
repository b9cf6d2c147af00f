import Glibc
import TestSupport
import Testing

@testable import TLS

struct PieceCursorTests {
    /// Checks that pieces of any size, read in steps of any size, give all bytes in order, and that equal positions
    /// give equal bytes.
    @Test(arguments: 0..<50) func givesAllBytesInOrder(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed &* 7919 + 3)
        let sizes = (0..<Int.random(in: 1...12, using: &generator)).map { _ in
            [0, 1, 5, 100, 1000].randomElement(using: &generator) ?? 0
        }
        let total = sizes.reduce(0, +)
        var bytes = (0..<total).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 / 251) }
        let expected = bytes
        var seen: [UInt8] = []
        bytes.withUnsafeMutableBytes { raw in
            var start = 0
            var pieces = sizes.map { size -> iovec in
                defer { start += size }
                return iovec(iov_base: raw.baseAddress.map { $0 + start }, iov_len: size)
            }
            pieces.withUnsafeMutableBufferPointer { pieces in
                var cursor = PieceCursor(pieces)
                while !cursor.isAtEnd {
                    let most = Int.random(in: 1...300, using: &generator)
                    let next = cursor.withNext(most) { Array($0) }
                    #expect(next == cursor.withNext(most) { Array($0) })
                    #expect(next.count == min(most, total - seen.count))
                    let taken = Int.random(in: 1...next.count, using: &generator)
                    seen += next[..<taken]
                    cursor.advance(by: taken)
                }
            }
        }
        #expect(seen == expected)
    }
}
