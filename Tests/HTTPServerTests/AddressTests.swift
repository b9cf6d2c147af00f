import Runtime
import TLS
import Testing

@testable import HTTPServer

struct AddressTests {
    @Test func limitForgetsClosedConnections() throws {
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

    /// The refusal is sent over TLS, after the handshake.
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
