/// All addresses that begin with the same bits: `10.0.0.0/8`, `2001:db8::/32`, or a single address.
public struct IPNetwork: Sendable, Hashable, CustomStringConvertible {
    /// The first address; the bits behind the prefix are 0.
    public let base: IPAddress
    /// 0...32 for IPv4, 0...128 for IPv6.
    public let prefixLength: Int

    private let highMask: UInt64
    private let lowMask: UInt64

    /// Reads `ADDRESS/BITS`, or `ADDRESS` alone; nil for anything else, also where bits behind the prefix are set (such
    /// a network is a slip of the pen more often than not).
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

    /// The first `bits` of 64 set; all or none beyond that.
    private static func mask(_ bits: Int) -> UInt64 {
        bits <= 0 ? 0 : bits >= 64 ? .max : ~(.max >> UInt64(bits))
    }

    /// Whether an address is of this network.
    public func contains(_ address: IPAddress) -> Bool {
        address.isVersion4 == base.isVersion4 && address.high & highMask == base.high
            && address.low & lowMask == base.low
    }

    public var description: String { "\(base)/\(prefixLength)" }
}
