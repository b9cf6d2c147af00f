import Glibc

extension [UInt8] {
    /// Appends `value` in network byte order, as every binary format of PostgreSQL wants it.
    mutating func appendBigEndian<Value: FixedWidthInteger>(_ value: Value) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }
}

extension UnsafeRawBufferPointer {
    /// The integer in network byte order at `offset`. The caller has checked the bounds.
    func loadBigEndian<Value: FixedWidthInteger>(_ type: Value.Type, at offset: Int) -> Value {
        Value(bigEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }

    /// Whether any byte is zero.
    var containsNUL: Bool {
        guard let baseAddress else { return false }
        return memchr(baseAddress, 0, count) != nil
    }
}
