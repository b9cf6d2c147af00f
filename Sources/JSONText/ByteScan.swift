/// Scans strings eight bytes at a time. Inlined into its callers in other modules, because they call it for every string and
/// key.
public enum ByteScan {
    @inlinable static var ones: UInt64 { 0x0101_0101_0101_0101 }
    @inlinable static var tops: UInt64 { 0x8080_8080_8080_8080 }

    /// Returns the offset of the first byte from `start` on that must be escaped in a JSON string: a quote, a backslash or a
    /// control character; with `andDelete`, also 0x7F. Returns the end if there is none.
    ///
    /// `seen` collects the bits of all bytes before it: a text whose top bits stay clear is ASCII.
    @inlinable @inline(__always)
    public static func endOfPlainText(
        _ bytes: UnsafeBufferPointer<UInt8>, from start: Int, andDelete: Bool = false, seen: inout UInt64
    ) -> Int {
        var index = start
        let raw = UnsafeRawBufferPointer(bytes)
        while index + 8 <= bytes.count {
            let word = UInt64(littleEndian: raw.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            let quote = word ^ (ones &* 0x22)
            let backslash = word ^ (ones &* 0x5C)
            // Subtracting borrows into a byte's top bit if the byte is smaller. Bytes above the first match may be wrong.
            var found = (word &- ones &* 0x20) & ~word
            found |= (quote &- ones) & ~quote
            found |= (backslash &- ones) & ~backslash
            if andDelete {
                let delete = word ^ (ones &* 0x7F)
                found |= (delete &- ones) & ~delete
            }
            found &= tops
            if found != 0 {
                let plain = found.trailingZeroBitCount & ~7
                seen |= word & ~(UInt64.max << UInt64(plain))
                return index + plain / 8
            }
            seen |= word
            index += 8
        }
        while index < bytes.count {
            let byte = bytes[index]
            if byte < 0x20 || byte == 0x22 || byte == 0x5C || (andDelete && byte == 0x7F) { return index }
            seen |= UInt64(byte)
            index += 1
        }
        return index
    }

    /// Whether all bytes that were scanned are ASCII.
    @inlinable @inline(__always)
    public static func isASCII(_ seen: UInt64) -> Bool { seen & tops == 0 }
}
