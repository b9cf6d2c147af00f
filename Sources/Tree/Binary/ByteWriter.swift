/// Appends numbers and texts in the store's binary form.
public struct ByteWriter {
    /// What has been written.
    public private(set) var bytes: [UInt8] = []

    public init() {}

    /// Forgets what has been written, and keeps the room for it.
    mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

    /// One byte.
    public mutating func byte(_ value: UInt8) { bytes.append(value) }

    /// Seven bits a byte, the lowest first.
    public mutating func varint(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }

    /// Small magnitudes are short, whatever their sign.
    public mutating func signed(_ value: Int64) {
        varint(UInt64(bitPattern: (value << 1) ^ (value >> 63)))
    }

    /// Eight bytes, the lowest first.
    public mutating func double(_ value: Double) {
        withUnsafeBytes(of: value.bitPattern.littleEndian) { bytes.append(contentsOf: $0) }
    }

    /// The length, then the UTF-8 bytes.
    public mutating func text(_ value: String) {
        var value = value
        value.withUTF8 {
            varint(UInt64($0.count))
            bytes.append(contentsOf: $0)
        }
    }

    /// The bytes alone.
    public mutating func raw(_ value: [UInt8]) { bytes.append(contentsOf: value) }

    /// The UTF-8 bytes alone.
    public mutating func raw(_ value: String) {
        var value = value
        value.withUTF8 { bytes.append(contentsOf: $0) }
    }
}
