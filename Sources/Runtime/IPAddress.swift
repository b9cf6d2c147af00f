internal import Glibc

/// An IPv4 or IPv6 address without a port. IPv4 within IPv6 (`::ffff:a.b.c.d`) is the IPv4 address.
public struct IPAddress: Sendable, Hashable, CustomStringConvertible {
    /// The address as a number; IPv4 has only the lower 32 bits.
    public let high: UInt64
    public let low: UInt64
    public let isVersion4: Bool

    /// From its 32 bits, the first byte being the highest.
    public init(version4 bits: UInt32) {
        high = 0
        low = UInt64(bits)
        isVersion4 = true
    }

    /// From the two halves of an IPv6 address.
    public init(high: UInt64, low: UInt64) {
        isVersion4 = high == 0 && low >> 32 == 0xFFFF
        self.high = high
        self.low = isVersion4 ? low & 0xFFFF_FFFF : low
    }

    /// From the bytes of a C `sockaddr`; nil where it is of another family, or too short.
    public init?(socketAddress bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= MemoryLayout<sa_family_t>.size else { return nil }
        switch Int32(bytes.loadUnaligned(as: sa_family_t.self)) {
        case AF_INET where bytes.count >= MemoryLayout<sockaddr_in>.size:
            self.init(version4: UInt32(bigEndian: bytes.loadUnaligned(as: sockaddr_in.self).sin_addr.s_addr))
        case AF_INET6 where bytes.count >= MemoryLayout<sockaddr_in6>.size:
            self.init(bytes.loadUnaligned(as: sockaddr_in6.self).sin6_addr)
        default: return nil
        }
    }

    private init(_ address: in6_addr) {
        let words = withUnsafeBytes(of: address) { raw in
            (raw.loadUnaligned(as: UInt64.self), raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        }
        self.init(high: UInt64(bigEndian: words.0), low: UInt64(bigEndian: words.1))
    }

    /// Reads `192.0.2.1`, `2001:db8::1`; nil for anything else. Nothing is looked up.
    public init?(_ text: String) {
        // `inet_pton` stops at a NUL.
        guard !text.utf8.contains(0) else { return nil }
        var four = in_addr()
        if inet_pton(AF_INET, text, &four) == 1 {
            self.init(version4: UInt32(bigEndian: four.s_addr))
            return
        }
        var six = in6_addr()
        guard inet_pton(AF_INET6, text, &six) == 1 else { return nil }
        self.init(six)
    }

    /// 127.0.0.0/8, ::1 and their mapped forms.
    public var isLoopback: Bool { isVersion4 ? low >> 24 == 127 : high == 0 && low == 1 }

    /// Whom limits count as one: an IPv4 address; the /64 network of an IPv6 address, as a single customer has at least
    /// that many.
    public var limitKey: IPAddress { isVersion4 ? self : IPAddress(high: high, low: 0) }

    /// In its usual text form.
    public var description: String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { text in
            guard let base = text.baseAddress else { return "" }
            let made: UnsafePointer<CChar>?
            if isVersion4 {
                var address = in_addr(s_addr: UInt32(truncatingIfNeeded: low).bigEndian)
                made = inet_ntop(AF_INET, &address, base, socklen_t(INET6_ADDRSTRLEN))
            } else {
                var words = (high.bigEndian, low.bigEndian)
                made = inet_ntop(AF_INET6, &words, base, socklen_t(INET6_ADDRSTRLEN))
            }
            return made.map { String(cString: $0) } ?? ""
        }
    }
}
