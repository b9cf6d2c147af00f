import Glibc
import Runtime
import Testing

/// Checks the parsing and comparison of addresses and networks.
@Suite struct IPAddressTests {
    @Test(arguments: [
        ("10.0.0.0/8", "10.255.1.2", true), ("10.0.0.0/8", "11.0.0.0", false), ("0.0.0.0/0", "203.0.113.9", true),
        ("0.0.0.0/0", "::1", false), ("::/0", "2001:db8::1", true), ("::/0", "192.0.2.1", false),
        ("192.0.2.7", "192.0.2.7", true), ("192.0.2.7/32", "192.0.2.6", false),
        ("192.0.2.128/25", "192.0.2.127", false),
        ("192.0.2.128/25", "::ffff:192.0.2.200", true), ("2001:db8::/32", "2001:db8:ffff::", true),
        ("2001:db8::/32", "2001:db9::", false), ("2001:db8:0:0:8000::/65", "2001:db8::8000:0:0:1", true),
        ("2001:db8:0:0:8000::/65", "2001:db8::7fff:0:0:1", false), ("::1/128", "::1", true), ("::1/128", "::2", false),
    ]) func contains(_ network: String, _ address: String, _ isInside: Bool) throws {
        let network = try #require(IPNetwork(network))
        #expect(network.contains(try #require(IPAddress(address))) == isInside)
        #expect(IPNetwork(network.description) == network)
    }

    @Test(arguments: [
        "", "/", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.1/8", "10.0.0/8", "::/129",
        "2001:db8::1/32", "localhost", "10.0.0.0/8/8", "10.0.0.0 /8", "10.0.0.0/8 ", "1.2.3.4\u{0}",
    ]) func refuses(_ text: String) {
        #expect(IPNetwork(text) == nil)
    }

    @Test func addressesAsText() throws {
        for text in ["192.0.2.1", "2001:db8::1", "::", "127.0.0.1"] {
            #expect(IPAddress(text)?.description == text)
        }
        #expect(IPAddress("::ffff:192.0.2.1") == IPAddress("192.0.2.1"))
        #expect(IPAddress("::192.0.2.1") != IPAddress("192.0.2.1"))
        for text in ["", "1.2.3", "1.2.3.4:80", "[::1]", "::1%lo", "x"] { #expect(IPAddress(text) == nil) }
        #expect(IPAddress("2001:db8:1:2:3::4")?.limitKey == IPAddress("2001:db8:1:2::"))
        #expect(IPAddress("192.0.2.1")?.limitKey == IPAddress("192.0.2.1"))
        #expect(IPAddress("::1")?.isLoopback == true)
        #expect(IPAddress("::")?.isLoopback == false)
    }

    @Test func fromSocketAddresses() {
        var four = sockaddr_in()
        four.sin_family = sa_family_t(AF_INET)
        four.sin_addr.s_addr = UInt32(0xC000_0201).bigEndian
        #expect(withUnsafeBytes(of: four) { IPAddress(socketAddress: $0) } == IPAddress("192.0.2.1"))
        var six = sockaddr_in6()
        six.sin6_family = sa_family_t(AF_INET6)
        inet_pton(AF_INET6, "2001:db8::7", &six.sin6_addr)
        #expect(withUnsafeBytes(of: six) { IPAddress(socketAddress: $0) } == IPAddress("2001:db8::7"))
        inet_pton(AF_INET6, "::ffff:192.0.2.1", &six.sin6_addr)
        #expect(withUnsafeBytes(of: six) { IPAddress(socketAddress: $0) } == IPAddress("192.0.2.1"))
        // Truncated addresses, and one of another family, are rejected.
        withUnsafeBytes(of: six) { bytes in
            for count in 0..<bytes.count {
                #expect(IPAddress(socketAddress: UnsafeRawBufferPointer(rebasing: bytes[..<count])) == nil)
            }
        }
        var local = sockaddr_un()
        local.sun_family = sa_family_t(AF_UNIX)
        #expect(withUnsafeBytes(of: local) { IPAddress(socketAddress: $0) } == nil)
    }
}
