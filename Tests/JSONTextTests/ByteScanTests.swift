import JSONText
import Testing

/// Compares the scan of eight bytes at a time with a scan of one byte at a time.
@Suite struct ByteScanTests {
    private func slow(_ bytes: [UInt8], _ start: Int, _ andDelete: Bool) -> (end: Int, isASCII: Bool) {
        var index = start
        var isASCII = true
        while index < bytes.count {
            let byte = bytes[index]
            if byte < 0x20 || byte == 0x22 || byte == 0x5C || (andDelete && byte == 0x7F) { break }
            if byte >= 0x80 { isASCII = false }
            index += 1
        }
        return (index, isASCII)
    }

    private func fast(_ bytes: [UInt8], _ start: Int, _ andDelete: Bool) -> (end: Int, isASCII: Bool) {
        var seen: UInt64 = 0
        let end = bytes.withUnsafeBufferPointer {
            ByteScan.endOfPlainText($0, from: start, andDelete: andDelete, seen: &seen)
        }
        return (end, ByteScan.isASCII(seen))
    }

    /// Checks every byte at every offset of texts around eight and sixteen bytes, after plain letters and after bytes
    /// adjacent to the significant ones.
    @Test(arguments: [false, true])
    func everyByteAtEveryOffset(andDelete: Bool) {
        for length in [1, 7, 8, 9, 15, 16, 17, 23] {
            for filler in [UInt8(ascii: "a"), 0x20, 0x21, 0x23, 0x5B, 0x5D, 0x7E, 0x80, 0xFF] {
                var bytes = [UInt8](repeating: filler, count: length)
                for offset in 0..<length {
                    for byte in UInt8.min...UInt8.max {
                        bytes[offset] = byte
                        let found = fast(bytes, 0, andDelete)
                        if found != slow(bytes, 0, andDelete) {
                            Issue.record("\(bytes): \(found)")
                            return
                        }
                    }
                    bytes[offset] = filler
                }
            }
        }
    }

    /// Of two significant bytes close together the first is found, however the subtraction borrows.
    @Test func theFirstOfTwoIsFound() {
        let marks: [UInt8] = [0x00, 0x1F, 0x20, 0x21, 0x22, 0x23, 0x5B, 0x5C, 0x5D, 0x7F, 0x80, 0xFF]
        for first in 0..<10 {
            for second in 0..<10 where second != first {
                for one in marks {
                    for other in marks {
                        var bytes = [UInt8](repeating: UInt8(ascii: "x"), count: 12)
                        bytes[first] = one
                        bytes[second] = other
                        for start in 0..<3 {
                            let found = fast(bytes, start, true)
                            if found != slow(bytes, start, true) {
                                Issue.record("\(bytes) from \(start): \(found)")
                                return
                            }
                        }
                    }
                }
            }
        }
    }

    @Test func nothingIsLookedAtBeforeTheStart() {
        #expect(fast(Array("\"é\"".utf8), 1, false) == (3, false))
        #expect(fast(Array("\"é\"".utf8), 3, false) == (3, true))
        #expect(fast([], 0, false) == (0, true))
    }
}
