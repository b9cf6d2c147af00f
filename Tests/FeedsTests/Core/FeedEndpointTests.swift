import Testing

@testable import Feeds

/// Where a gateway says that others reach it.
@Suite struct FeedEndpointTests {
    private typealias Place = FeedEndpoint.Place

    private func addresses(_ plain: (String, UInt16)?, _ secure: (String, UInt16)?, from host: String?) -> [String] {
        let endpoint = FeedEndpoint(
            plain: plain.map { Place(host: $0.0, port: $0.1) }, secure: secure.map { Place(host: $0.0, port: $0.1) })
        let (peer, older, isSecure) = endpoint.addresses(from: host)
        #expect(isSecure == peer.hasPrefix("https:"))
        return [peer, older]
    }

    @Test func plainHTTP() {
        #expect(
            addresses(("0.0.0.0", 9000), nil, from: "10.0.0.5") == ["http://10.0.0.5:9000", "http://10.0.0.5:9000"])
        #expect(addresses(("127.0.0.1", 9000), nil, from: nil) == ["http://127.0.0.1:9000", "http://127.0.0.1:9000"])
        #expect(addresses(("::", 9000), nil, from: "2001:db8::5").first == "http://[2001:db8::5]:9000")
        // Listening at one address, it is not reached at another from which it connects to the database.
        #expect(addresses(("192.0.2.7", 9000), nil, from: "10.0.0.5").first == "http://192.0.2.7:9000")
    }

    @Test func onlyTLS() {
        let https = "https://10.0.0.5:9443"
        #expect(addresses(nil, ("0.0.0.0", 9443), from: "10.0.0.5") == [https, https])
    }

    @Test func both() {
        let http = "http://10.0.0.5:9000"
        #expect(addresses(("0.0.0.0", 9000), ("0.0.0.0", 9443), from: "10.0.0.5") == ["https://10.0.0.5:9443", http])
        // HTTPS that other machines can't reach is of no use to them.
        #expect(addresses(("0.0.0.0", 9000), ("127.0.0.1", 9443), from: "10.0.0.5") == [http, http])
        #expect(addresses(("127.0.0.1", 9000), ("127.0.0.1", 9443), from: nil).first == "https://127.0.0.1:9443")
    }
}
