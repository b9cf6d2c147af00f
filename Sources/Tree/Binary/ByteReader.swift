/// Reads the output of a `ByteWriter`. Returns nil for damaged bytes, and never reads beyond the end.
public struct ByteReader {
    private let bytes: UnsafeRawBufferPointer
    /// The number of bytes read so far.
    public private(set) var index = 0

    /// Creates a reader of these bytes, which must stay valid while the reader is used.
    public init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Whether all bytes were read.
    public var isAtEnd: Bool { index == bytes.count }
    /// The number of bytes left.
    public var remaining: Int { bytes.count - index }

    /// Reads the next byte. Returns nil at the end.
    public mutating func byte() -> UInt8? {
        guard index < bytes.count else { return nil }
        defer { index += 1 }
        return bytes[index]
    }

    /// The next byte, without advancing.
    public var peek: UInt8? { index < bytes.count ? bytes[index] : nil }

    /// Reads a number in the format of `ByteWriter.varint`.
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

    /// Reads a number in the format of `ByteWriter.signed`.
    public mutating func signed() -> Int64? {
        guard let value = varint() else { return nil }
        return Int64(bitPattern: (value >> 1) ^ (0 &- (value & 1)))
    }

    /// Reads eight bytes, the lowest first.
    public mutating func double() -> Double? {
        guard remaining >= 8 else { return nil }
        defer { index += 8 }
        return Double(bitPattern: UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)))
    }

    /// Reads a length. Returns nil if it exceeds the number of bytes left.
    public mutating func count() -> Int? {
        guard let value = varint(), value <= UInt64(remaining) else { return nil }
        return Int(value)
    }

    /// Reads a length and a text of that length.
    public mutating func text() -> String? {
        guard let count = count() else { return nil }
        return text(count)
    }

    /// Reads a UTF-8 text of `count` bytes.
    public mutating func text(_ count: Int) -> String? {
        guard let part = raw(count) else { return nil }
        return String(decoding: part, as: UTF8.self)
    }

    /// Reads `count` bytes. They are valid for as long as the whole buffer.
    public mutating func raw(_ count: Int) -> UnsafeRawBufferPointer? {
        guard count <= remaining else { return nil }
        defer { index += count }
        return UnsafeRawBufferPointer(rebasing: bytes[index..<(index + count)])
    }
}
