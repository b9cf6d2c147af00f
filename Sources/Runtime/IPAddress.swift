internal import Glibc

/// An IPv4 or IPv6 address without a port. IPv4 within IPv6 (`::ffff:a.b.c.d`) is the IPv4 address.
public struct IPAddress: Sendable, Hashable, CustomStringConvertible {
    /// The address as a number; IPv4 uses only the lower 32 bits.
    public let high: UInt64
    public let low: UInt64
    public let isVersion4: Bool

    /// Creates an IPv4 address from its 32 bits; the first byte is the highest.
    public init(version4 bits: UInt32) {
        high = 0
        low = UInt64(bits)
        isVersion4 = true
    }

    /// Creates an address from the two halves of an IPv6 address.
    public init(high: UInt64, low: UInt64) {
        isVersion4 = high == 0 && low >> 32 == 0xFFFF
        self.high = high
        self.low = isVersion4 ? low & 0xFFFF_FFFF : low
    }

    /// Creates an address from the bytes of a C `sockaddr`; nil if it has another family or is too short.
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

    /// Reads `192.0.2.1`, `2001:db8::1`; nil for anything else. Does not look up names.
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

    /// The key under which limits count the address: an IPv4 address itself, and the /64 network of an IPv6 address,
    /// because a single customer has at least that many addresses.
    public var limitKey: IPAddress { isVersion4 ? self : IPAddress(high: high, low: 0) }

    /// The address in its usual text form.
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

/// All addresses with the same leading bits: `10.0.0.0/8`, `2001:db8::/32`, or a single address.
public struct IPNetwork: Sendable, Hashable, CustomStringConvertible {
    /// The first address; the bits after the prefix are 0.
    public let base: IPAddress
    /// 0...32 for IPv4, 0...128 for IPv6.
    public let prefixLength: Int

    private let highMask: UInt64
    private let lowMask: UInt64

    /// Reads `ADDRESS/BITS`, or `ADDRESS` alone; nil for anything else, also if bits after the prefix are set, which is
    /// usually a mistake.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = IPAddress(String(parts[0])) else { return nil }
        let width = address.isVersion4 ? 32 : 128
        var length = width
        if parts.count == 2 {
            guard !parts[1].isEmpty, parts[1].utf8.allSatisfy({ (0x30...0x39).contains($0) }),
                let given = Int(parts[1]), given <= width
            else { return nil }
            length = given
        }
        base = address
        prefixLength = length
        let bits = address.isVersion4 ? length + 96 : length
        highMask = Self.mask(bits)
        lowMask = address.isVersion4 ? Self.mask(length + 32) & 0xFFFF_FFFF : Self.mask(bits - 64)
        guard address.low & ~lowMask == 0, address.isVersion4 || address.high & ~highMask == 0 else { return nil }
    }

    /// Returns a mask with the first `bits` of 64 bits set; none or all bits outside that range.
    private static func mask(_ bits: Int) -> UInt64 {
        bits <= 0 ? 0 : bits >= 64 ? .max : ~(.max >> UInt64(bits))
    }

    /// Whether an address belongs to this network.
    public func contains(_ address: IPAddress) -> Bool {
        address.isVersion4 == base.isVersion4 && address.high & highMask == base.high
            && address.low & lowMask == base.low
    }

    public var description: String { "\(base)/\(prefixLength)" }
}

extension IPAddress {
    /// Whether the address may be anywhere on the internet, and not on this machine, in its networks, or inside a
    /// cloud.
    ///
    /// For IPv4, all ranges that IANA lists as not globally reachable are excluded. For IPv6, only the global unicast
    /// range counts, without reserved ranges and those that lead back to IPv4 addresses (6to4, Teredo). A NAT64 address
    /// is as public as the IPv4 address in it.
    public var isPublic: Bool {
        if isVersion4 { return !Self.reservedVersion4.contains { $0.contains(self) } }
        if Self.nat64.contains(where: { $0.contains(self) }) {
            return IPAddress(version4: UInt32(truncatingIfNeeded: low)).isPublic
        }
        guard high >> 61 == 0b001 else { return false }
        return !Self.reservedVersion6.contains { $0.contains(self) }
    }

    /// The tables of `isPublic`, for the test that all entries can be read.
    static let reservedNetworkTexts = reservedVersion4Texts + reservedVersion6Texts + nat64Texts
    static var reservedNetworks: [IPNetwork] { reservedVersion4 + reservedVersion6 + nat64 }

    private static let reservedVersion4 = reservedVersion4Texts.compactMap(IPNetwork.init)
    private static let reservedVersion6 = reservedVersion6Texts.compactMap(IPNetwork.init)
    private static let nat64 = nat64Texts.compactMap(IPNetwork.init)

    private static let reservedVersion4Texts = [
        "0.0.0.0/8",  // this network
        "10.0.0.0/8",  // private
        "100.64.0.0/10",  // carrier-grade NAT, and internal networks of some clouds
        "127.0.0.0/8",  // this machine
        "169.254.0.0/16",  // link-local: metadata services of clouds
        "172.16.0.0/12",  // private
        "192.0.0.0/24",  // protocol assignments
        "192.0.2.0/24",  // documentation
        "192.88.99.0/24",  // 6to4 relays
        "192.168.0.0/16",  // private
        "198.18.0.0/15",  // benchmarking
        "198.51.100.0/24",  // documentation
        "203.0.113.0/24",  // documentation
        "224.0.0.0/4",  // multicast
        "240.0.0.0/4",  // reserved, and broadcast
    ]
    private static let reservedVersion6Texts = [
        "2001::/23",  // protocol assignments: Teredo, benchmarking, ORCHID
        "2001:db8::/32",  // documentation
        "2002::/16",  // 6to4
        "3fff::/20",  // documentation
    ]
    private static let nat64Texts = ["64:ff9b::/96"]
}
