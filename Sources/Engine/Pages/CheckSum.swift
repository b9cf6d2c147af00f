/// A sum of 64 bits over bytes that are kept outside of memory: against damage, not against people.
enum CheckSum {
    /// Eight bytes at a time, each multiplied in, with the upper half mixed into the lower.
    ///
    /// - Parameter place: is a part of the sum: bytes from elsewhere have another.
    static func of(_ bytes: UnsafeRawBufferPointer, at place: Int64 = 0) -> UInt64 {
        var sum: UInt64 = 0xCBF2_9CE4_8422_2325 ^ UInt64(bytes.count) ^ (UInt64(bitPattern: place) << 20)
        var index = 0
        while index + 8 <= bytes.count {
            let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            sum = (sum ^ word) &* 0x9E37_79B9_7F4A_7C15
            sum ^= sum >> 32
            index += 8
        }
        while index < bytes.count {
            sum = (sum ^ UInt64(bytes[index])) &* 0x100_0000_01B3
            index += 1
        }
        return sum
    }
}
