import Testing

@testable import Runtime

/// Checks that no address of a machine, a private network or a cloud's internal network counts as public, in any of its
/// forms.
@Suite struct PublicAddressTests {
    @Test(arguments: [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.9",
        "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.0.1",
        "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.255.255.255", "240.0.0.1",
        "255.255.255.255", "::", "::1", "::10.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
        "100::1", "64:ff9b::10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8", "2001::1",
        "2001:0:4136:e378::1", "2001:2::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1",
        "3fff:fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "febf::1", "fec0::1", "ff02::1",
        "ff0e::1",
    ]) func isNotPublic(_ text: String) throws { #expect(try !#require(IPAddress(text)).isPublic) }

    @Test(arguments: [
        "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
        "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0",
        "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8", "2000::1", "2001:200::1", "2001:4860:4860::8888", "2001:db7:ffff::1", "2001:db9::1",
        "2003::1", "2606:4700::1111", "3ffe::1", "3fff:1000::1",
    ]) func isPublic(_ text: String) throws { #expect(try #require(IPAddress(text)).isPublic) }

    /// A network that could not be parsed would be missing from the check.
    @Test func tablesAreRead() {
        #expect(IPAddress.reservedNetworks.count == IPAddress.reservedNetworkTexts.count)
        #expect(IPAddress.reservedNetworks.map(\.description) == IPAddress.reservedNetworkTexts)
    }
}
