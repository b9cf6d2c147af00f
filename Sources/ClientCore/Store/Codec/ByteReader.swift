/// Reads what a `ByteWriter` wrote. Damaged bytes give nil, never more than what is there.
struct ByteReader {
    private let bytes: UnsafeRawBufferPointer
    private(set) var index = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool { index == bytes.count }
    var remaining: Int { bytes.count - index }

    mutating func byte() -> UInt8? {
        guard index < bytes.count else { return nil }
        defer { index += 1 }
        return bytes[index]
    }

    /// The next byte, which stays.
    var peek: UInt8? { index < bytes.count ? bytes[index] : nil }

    mutating func varint() -> UInt64? {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while let next = byte() {
            if shift == 63, next > 1 { return nil }
            value |= UInt64(next & 0x7F) << shift
            if next < 0x80 { return value }
            shift += 7
            if shift > 63 { return nil }
        }
        return nil
    }

    mutating func signed() -> Int64? {
        guard let value = varint() else { return nil }
        return Int64(bitPattern: (value >> 1) ^ (0 &- (value & 1)))
    }

    mutating func double() -> Double? {
        guard remaining >= 8 else { return nil }
        defer { index += 8 }
        return Double(bitPattern: UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)))
    }

    /// A length that is not more than what is left.
    mutating func count() -> Int? {
        guard let value = varint(), value <= UInt64(remaining) else { return nil }
        return Int(value)
    }

    mutating func text() -> String? {
        guard let count = count() else { return nil }
        return text(count)
    }

    mutating func text(_ count: Int) -> String? {
        guard let part = raw(count) else { return nil }
        return String(decoding: part, as: UTF8.self)
    }

    mutating func raw(_ count: Int) -> UnsafeRawBufferPointer? {
        guard count <= remaining else { return nil }
        defer { index += count }
        return UnsafeRawBufferPointer(rebasing: bytes[index..<(index + count)])
    }
}
