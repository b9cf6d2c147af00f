import Runtime
import Testing

@testable import HTTPClient

/// Tests of the addresses that may be connected to, decided without a connection.
@Suite struct AddressPolicyTests {
    private static func policy(_ networks: [String] = [], _ hosts: Set<String> = []) -> AddressPolicy {
        .publicOnly(except: .init(networks: networks.compactMap(IPNetwork.init), hosts: hosts))
    }

    private static func verdict(
        _ policy: AddressPolicy, _ url: String, _ address: String, fromOutside: Bool = false
    ) -> AddressPolicy.Verdict {
        policy.verdict(on: IPAddress(address), of: ClientURL(url), comesFromOutside: fromOutside)
    }

    @Test(
        arguments: [
            ("https://example.com/", "8.8.8.8", .outside), ("http://example.com/", "8.8.8.8", .needsTLS),
            ("https://example.com/", "10.1.1.1", .excepted), ("http://example.com/", "10.1.1.1", .excepted),
            ("https://example.com/", "10.2.1.1", .refused), ("http://example.com/", "192.168.0.1", .refused),
            ("http://Billing.Internal.:8080/x", "192.168.0.1", .excepted),
            ("https://billing.internal.example.com/", "192.168.0.1", .refused),
            ("https://user@billing.internal/", "127.0.0.1", .excepted),
            ("https://billing.internal@example.com/", "127.0.0.1", .refused),
            ("http://[fd00::1]/", "fd00::1", .excepted), ("http://[fd00::2]/", "fd00::2", .refused),
            ("https://example.com/", "not an address", .refused), ("https://", "8.8.8.8", .refused),
        ] as [(String, String, AddressPolicy.Verdict)])
    func verdicts(_ url: String, _ address: String, _ expected: AddressPolicy.Verdict) {
        let policy = Self.policy(["10.1.0.0/16"], ["billing.internal", "[FD00::1]"])
        #expect(Self.verdict(policy, url, address) == expected)
        #expect(Self.verdict(.any, url, address) == .excepted)
    }

    @Test func exceptionsAsText() throws {
        let read = try AddressPolicy.Exceptions("10.20.0.0/16, ::1,Billing.internal. ,192.0.2.7,,localhost")
        #expect(read.networks.map(\.description) == ["10.20.0.0/16", "::1/128", "192.0.2.7/32"])
        #expect(read.hosts == ["billing.internal", "localhost"])
        #expect(try AddressPolicy.Exceptions("") == AddressPolicy.Exceptions())
    }

    @Test(arguments: [
        "10.0.0.1/8", "10.0.0", "0x7f.1", "2130706433", "[::1]", "*.internal", "https://a", "a:80", "a/b", "a b",
        "é.fr",
    ]) func whatIsNoException(_ text: String) {
        #expect(throws: AddressPolicy.Exceptions.UnknownPart(text: text)) {
            try AddressPolicy.Exceptions("10.0.0.0/8," + text)
        }
    }

    /// Checks that a redirect by a server on the internet cannot use exceptions made for other requests.
    @Test func exceptionsAreNotForRedirectsFromOutside() {
        let policy = Self.policy(["10.0.0.0/8"], ["billing.internal"])
        #expect(Self.verdict(policy, "https://a.example/", "10.0.0.1", fromOutside: true) == .refused)
        #expect(Self.verdict(policy, "http://billing.internal/", "10.0.0.1", fromOutside: true) == .refused)
        #expect(Self.verdict(policy, "https://a.example/", "8.8.8.8", fromOutside: true) == .outside)
    }

    @Test func theGuardRemembersWhereARedirectCameFrom() throws {
        let inside = try #require(IPAddress("10.0.0.1"))
        let outside = try #require(IPAddress("8.8.8.8"))
        let guardian = AddressGuard(Self.policy(["10.0.0.0/8"]))
        guardian.begin(ClientURL("https://a.example/"))
        #expect(guardian.mayReach(inside))
        guardian.begin(ClientURL("https://b.example/"))
        #expect(guardian.mayReach(inside))
        #expect(guardian.mayReach(outside))
        guardian.begin(ClientURL("https://c.example/"))
        #expect(!guardian.mayReach(inside))
        #expect(guardian.mayReach(outside))
        guardian.begin(ClientURL("https://d.example/"))
        #expect(!guardian.mayReach(inside))
    }

    @Test(
        arguments: [
            ("https://Example.COM./a?b#c", "https example.com 443"), ("http://[2001:DB8::1]:81", "http 2001:db8::1 81"),
            ("http://127.1/", "http 127.0.0.1 80"), ("http://0x7f000001/", "http 127.0.0.1 80"),
            ("ftp://a/", "ftp a 21"), ("example.com", "http example.com 80"), ("", nil), ("https://", nil),
            ("http://a b/", nil), ("/path", nil), ("http://a\u{0}b/", nil), ("http://a:99999/", nil),
        ] as [(String, String?)])
    func addressesAreReadAsLibcurlDoes(_ text: String, _ parts: String?) {
        #expect(ClientURL(text).map { "\($0.scheme) \($0.host) \($0.port)" } == parts)
    }

    @Test func credentialsInAddressesAreSeen() throws {
        #expect(try #require(ClientURL("https://me@a/")).hasCredentials)
        #expect(try #require(ClientURL("https://:pw@a/")).hasCredentials)
        #expect(try !#require(ClientURL("https://a/@me")).hasCredentials)
    }
}
