extension IPAddress {
    /// Whether the address may be anywhere on the internet: it is not of this machine, its networks, or a cloud's inside.
    ///
    /// For IPv4 all that IANA lists as not globally reachable is refused; for IPv6 only the global unicast range counts, less what
    /// leads back to IPv4 addresses (6to4, Teredo) or is set aside. An address of NAT64 is as public as the IPv4 address in it.
    public var isPublic: Bool {
        if isVersion4 { return !Self.reservedVersion4.contains { $0.contains(self) } }
        if Self.nat64.contains(where: { $0.contains(self) }) {
            return IPAddress(version4: UInt32(truncatingIfNeeded: low)).isPublic
        }
        guard high >> 61 == 0b001 else { return false }
        return !Self.reservedVersion6.contains { $0.contains(self) }
    }

    /// The tables of `isPublic`, for the test that sees that all of them could be read.
    static let reservedNetworkTexts = reservedVersion4Texts + reservedVersion6Texts + nat64Texts
    static var reservedNetworks: [IPNetwork] { reservedVersion4 + reservedVersion6 + nat64 }

    private static let reservedVersion4 = reservedVersion4Texts.compactMap(IPNetwork.init)
    private static let reservedVersion6 = reservedVersion6Texts.compactMap(IPNetwork.init)
    private static let nat64 = nat64Texts.compactMap(IPNetwork.init)

    private static let reservedVersion4Texts = [
        "0.0.0.0/8",  // this network
        "10.0.0.0/8",  // private
        "100.64.0.0/10",  // carriers' NAT, and some clouds' inside
        "127.0.0.0/8",  // this machine
        "169.254.0.0/16",  // link-local: clouds' metadata services
        "172.16.0.0/12",  // private
        "192.0.0.0/24",  // protocol assignments
        "192.0.2.0/24",  // documentation
        "192.88.99.0/24",  // relays of 6to4
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
