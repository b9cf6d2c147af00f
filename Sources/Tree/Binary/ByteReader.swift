/// Reads what a `ByteWriter` wrote. Damaged bytes give nil, never more than what is there.
public struct ByteReader {
    private let bytes: UnsafeRawBufferPointer
    /// How many bytes have been read.
    public private(set) var index = 0

    /// Reads these bytes, which have to be valid for as long as the reader is used.
    public init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Whether nothing is left.
    public var isAtEnd: Bool { index == bytes.count }
    /// How many bytes are left.
    public var remaining: Int { bytes.count - index }

    /// The next byte; nil at the end.
    public mutating func byte() -> UInt8? {
        guard index < bytes.count else { return nil }
        defer { index += 1 }
        return bytes[index]
    }

    /// The next byte, which stays.
    public var peek: UInt8? { index < bytes.count ? bytes[index] : nil }

    /// A number as `ByteWriter.varint` writes it.
    public mutating func varint() -> UInt64? {
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

    /// A number as `ByteWriter.signed` writes it.
    public mutating func signed() -> Int64? {
        guard let value = varint() else { return nil }
        return Int64(bitPattern: (value >> 1) ^ (0 &- (value & 1)))
    }

    /// Eight bytes, the lowest first.
    public mutating func double() -> Double? {
        guard remaining >= 8 else { return nil }
        defer { index += 8 }
        return Double(bitPattern: UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)))
    }

    /// A length that is not more than what is left.
    public mutating func count() -> Int? {
        guard let value = varint(), value <= UInt64(remaining) else { return nil }
        return Int(value)
    }

    /// A length and as many bytes.
    public mutating func text() -> String? {
        guard let count = count() else { return nil }
        return text(count)
    }

    /// So many bytes of UTF-8.
    public mutating func text(_ count: Int) -> String? {
        guard let part = raw(count) else { return nil }
        return String(decoding: part, as: UTF8.self)
    }

    /// So many bytes, which are valid for as long as those of the whole are.
    public mutating func raw(_ count: Int) -> UnsafeRawBufferPointer? {
        guard count <= remaining else { return nil }
        defer { index += count }
        return UnsafeRawBufferPointer(rebasing: bytes[index..<(index + count)])
    }
}
