/// Appends numbers and texts in the store's binary form.
public struct ByteWriter {
    /// The bytes written so far.
    public private(set) var bytes: [UInt8] = []

    public init() {}

    /// Removes all bytes and keeps the capacity.
    mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

    /// Appends one byte.
    public mutating func byte(_ value: UInt8) { bytes.append(value) }

    /// Appends a number, seven bits per byte, the lowest first.
    public mutating func varint(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }

    /// Appends a signed number. Small magnitudes are short, regardless of their sign.
    public mutating func signed(_ value: Int64) {
        varint(UInt64(bitPattern: (value << 1) ^ (value >> 63)))
    }

    /// Appends eight bytes, the lowest first.
    public mutating func double(_ value: Double) {
        withUnsafeBytes(of: value.bitPattern.littleEndian) { bytes.append(contentsOf: $0) }
    }

    /// Appends the length, then the UTF-8 bytes.
    public mutating func text(_ value: String) {
        var value = value
        value.withUTF8 {
            varint(UInt64($0.count))
            bytes.append(contentsOf: $0)
        }
    }

    /// Appends the bytes without a length.
    public mutating func raw(_ value: [UInt8]) { bytes.append(contentsOf: value) }

    /// Appends the UTF-8 bytes without a length.
    public mutating func raw(_ value: String) {
        var value = value
        value.withUTF8 { bytes.append(contentsOf: $0) }
    }
}
