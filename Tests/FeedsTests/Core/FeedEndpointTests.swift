import Testing

@testable import Feeds

/// Tests of the address at which a gateway announces itself to other gateways.
@Suite struct FeedEndpointTests {
    private typealias Address = FeedEndpoint.Address

    private func address(_ plain: (String, UInt16)?, _ secure: (String, UInt16)?, from host: String?) -> String {
        let endpoint = FeedEndpoint(
            plain: plain.map { Address(host: $0.0, port: $0.1) }, secure: secure.map { Address(host: $0.0, port: $0.1) }
        )
        let (address, isSecure) = endpoint.address(from: host)
        #expect(isSecure == address.hasPrefix("https:"))
        return address
    }

    @Test func plainHTTP() {
        #expect(address(("0.0.0.0", 9000), nil, from: "10.0.0.5") == "http://10.0.0.5:9000")
        #expect(address(("127.0.0.1", 9000), nil, from: nil) == "http://127.0.0.1:9000")
        #expect(address(("::", 9000), nil, from: "2001:db8::5") == "http://[2001:db8::5]:9000")
        // A gateway that listens at one address cannot be reached at another one from which it connects to the
        // database.
        #expect(address(("192.0.2.7", 9000), nil, from: "10.0.0.5") == "http://192.0.2.7:9000")
    }

    @Test func onlyTLS() {
        #expect(address(nil, ("0.0.0.0", 9443), from: "10.0.0.5") == "https://10.0.0.5:9443")
        #expect(address(nil, nil, from: "10.0.0.5") == "")
    }

    @Test func both() {
        #expect(address(("0.0.0.0", 9000), ("0.0.0.0", 9443), from: "10.0.0.5") == "https://10.0.0.5:9443")
        // An HTTPS address that other machines cannot reach is not announced.
        #expect(address(("0.0.0.0", 9000), ("127.0.0.1", 9443), from: "10.0.0.5") == "http://10.0.0.5:9000")
        #expect(address(("127.0.0.1", 9000), ("127.0.0.1", 9443), from: nil) == "https://127.0.0.1:9443")
    }
}
