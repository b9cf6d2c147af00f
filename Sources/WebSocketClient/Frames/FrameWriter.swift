/// Writes a client's frames, which are masked (RFC 6455 5.3). Pure except for the random masks.
struct FrameWriter {
    private var random = SystemRandomNumberGenerator()
    /// Random bits of up to two masks.
    private var masks: UInt64 = 0
    private var masksLeft = 0

    mutating func text(_ payload: [UInt8], to output: inout [UInt8]) { frame(opcode: 1, payload, to: &output) }

    mutating func pong(_ payload: [UInt8], to output: inout [UInt8]) { frame(opcode: 10, payload, to: &output) }

    mutating func close(code: UInt16, to output: inout [UInt8]) {
        frame(opcode: 8, [UInt8(code >> 8), UInt8(code & 0xFF)], to: &output)
    }

    private mutating func frame(opcode: UInt8, _ payload: [UInt8], to output: inout [UInt8]) {
        let mask = nextMask()
        output.reserveCapacity(output.count + payload.count + 14)
        output.append(0x80 | opcode)
        switch payload.count {
        case ..<126: output.append(0x80 | UInt8(payload.count))
        case ..<65_536:
            output.append(0xFE)
            for shift in [8, 0] { output.append(UInt8(truncatingIfNeeded: payload.count >> shift)) }
        default:
            output.append(0xFF)
            for shift in stride(from: 56, through: 0, by: -8) {
                output.append(UInt8(truncatingIfNeeded: payload.count >> shift))
            }
        }
        withUnsafeBytes(of: mask) { output.append(contentsOf: $0) }
        let start = output.count
        output.append(contentsOf: payload)
        output.withUnsafeMutableBytes { Self.apply(mask, to: UnsafeMutableRawBufferPointer(rebasing: $0[start...])) }
    }

    /// Applies the mask to eight bytes at a time.
    private static func apply(_ mask: UInt32, to bytes: UnsafeMutableRawBufferPointer) {
        let double = UInt64(mask) << 32 | UInt64(mask)
        var index = 0
        while index + 8 <= bytes.count {
            let word = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            bytes.storeBytes(of: word ^ double, toByteOffset: index, as: UInt64.self)
            index += 8
        }
        withUnsafeBytes(of: mask) { mask in
            while index < bytes.count {
                bytes[index] ^= mask[index & 3]
                index += 1
            }
        }
    }

    private mutating func nextMask() -> UInt32 {
        if masksLeft == 0 {
            masks = random.next()
            masksLeft = 2
        }
        masksLeft -= 1
        defer { masks >>= 32 }
        return UInt32(truncatingIfNeeded: masks)
    }
}
