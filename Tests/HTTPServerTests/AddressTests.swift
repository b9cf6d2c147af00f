import Testing

@testable import HTTPServer

struct AddressTests {
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

    @Test func limitForgetsWhoHasLeft() throws {
        let limit = AddressLimit(2, except: [try #require(IPNetwork("10.0.0.0/8"))])
        let address = try #require(IPAddress("192.0.2.1"))
        #expect(limit.covers(address))
        #expect(!limit.covers(try #require(IPAddress("10.1.1.1"))))
        #expect(limit.take(address) && limit.take(address) && !limit.take(address))
        limit.release(address)
        #expect(limit.take(address))
        limit.release(address)
        limit.release(address)
        #expect(limit.addressCount == 0)
    }

    @Test func oneAddressHasOnlySoManyConnections() throws {
        let server = try TestServer({ $0.maxConnectionsPerAddress = 2 }, TestServer.echo)
        let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        let first = try TestClient(port: server.port)
        let second = try TestClient(port: server.port)
        #expect(try first.exchange(request).status == 200)
        #expect(try second.exchange(request).status == 200)
        let third = try TestClient(port: server.port)
        let refusal = try third.receiveResponse()
        #expect(refusal.status == 429 && refusal.text.contains("Too many requests"))
        #expect(refusal.headers["retry-after"] == "1")
        #expect(third.isClosedByServer())
        #expect(server.server.statistics.overAddressLimit == 1)
        first.close()
        eventually { server.server.statistics.activeConnections == 1 }
        #expect(try TestClient(port: server.port).exchange(request).status == 200)
        #expect(try second.exchange(request).status == 200)
    }

    @Test func exceptedNetworksAreNotCounted() throws {
        let loopback = try #require(IPNetwork("127.0.0.0/8"))
        let server = try TestServer(
            {
                $0.maxConnectionsPerAddress = 1
                $0.unlimitedNetworks = [loopback]
            }, TestServer.echo)
        let clients = try (0..<5).map { _ in try TestClient(port: server.port) }
        for client in clients {
            #expect(try client.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
        }
    }

    /// The refusal comes over TLS, behind the handshake.
    @Test func refusalOverTLS() throws {
        let certificate = try TestCertificate()
        let identity = try TLSIdentity(certificateFile: certificate.certificateFile, keyFile: certificate.keyFile)
        let server = try TestServer(
            {
                $0.tlsAddresses = [ListenAddress(host: "127.0.0.1", port: 0)]
                $0.tls = identity
                $0.maxConnectionsPerAddress = 1
            }, TestServer.echo)
        let first = try TestClient(port: server.securePort, tls: TestTLS())
        let second = try TestClient(port: server.securePort, tls: TestTLS())
        #expect(try second.receiveResponse().status == 429)
        #expect(try first.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
    }
}
