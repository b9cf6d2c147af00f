/// Appends numbers and texts in the store's binary form.
struct ByteWriter {
    private(set) var bytes: [UInt8] = []

    mutating func byte(_ value: UInt8) { bytes.append(value) }

    /// Seven bits a byte, the lowest first.
    mutating func varint(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }

    /// Small magnitudes are short, whatever their sign.
    mutating func signed(_ value: Int64) {
        varint(UInt64(bitPattern: (value << 1) ^ (value >> 63)))
    }

    mutating func double(_ value: Double) {
        withUnsafeBytes(of: value.bitPattern.littleEndian) { bytes.append(contentsOf: $0) }
    }

    /// The length, then the UTF-8 bytes.
    mutating func text(_ value: String) {
        var value = value
        value.withUTF8 {
            varint(UInt64($0.count))
            bytes.append(contentsOf: $0)
        }
    }

    /// The bytes alone.
    mutating func raw(_ value: [UInt8]) { bytes.append(contentsOf: value) }

    /// The UTF-8 bytes alone.
    mutating func raw(_ value: String) {
        var value = value
        value.withUTF8 { bytes.append(contentsOf: $0) }
    }
}
