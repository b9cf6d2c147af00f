import HTTPClient
import HTTPServer
import Runtime
import Testing

/// Checks that nothing is sent to an address that is not allowed, by any route.
@Suite struct AddressGuardTests {
    /// A server that records the requests that reach it.
    private final class CountingServer: Sendable {
        let server: LocalServer
        private let seen: MutexBox<[String]>
        var requests: [String] { seen.withLock { $0 } }
        var port: UInt16 { server.port }

        init(_ answer: @escaping LocalServer.Handle = { _, exchange in exchange.respond(status: 200) }) throws {
            let seen = MutexBox<[String]>([])
            self.seen = seen
            server = try LocalServer { request, exchange in
                seen.withLock { $0.append("\(request.method) \(request.targetText)") }
                answer(request, exchange)
            }
        }
    }

    private static func request(
        _ url: String, _ networks: [String] = [], hosts: Set<String> = []
    ) -> HTTPClientRequest {
        var request = HTTPClientRequest.plain(url)
        request.addresses = .publicOnly(except: .init(networks: networks.compactMap(IPNetwork.init), hosts: hosts))
        return request
    }

    @Test(arguments: ["127.0.0.1", "localhost", "a.localhost", "127.1", "0x7f.0.0.1", "2130706433", "0.0.0.0"])
    func namesAndNumbersOfThisMachineAreRefused(_ host: String) throws {
        let server = try CountingServer()
        let client = try HTTPClient()
        defer { client.stop() }
        guard
            case .addressNotAllowed(let named) = client.failure(
                Self.request("http://me:hunter2@\(host):\(server.port)/?key=hunter2"))
        else {
            Issue.record("it was allowed")
            return
        }
        #expect(!named.isEmpty && !named.contains("hunter2"))
        #expect(server.requests.isEmpty)
        // Requests that may reach the address still do.
        #expect(try client.result(.plain("http://\(host):\(server.port)/"))?.get().status == 200)
    }

    @Test func exceptionsByNetworkAndByHost() throws {
        let server = try CountingServer()
        let client = try HTTPClient()
        defer { client.stop() }
        let (number, name) = ("http://127.0.0.1:\(server.port)/", "http://localhost:\(server.port)/")
        for url in [number, name] {
            let allowed = Self.request(url, ["127.0.0.0/8", "::1"])
            #expect(try client.result(allowed)?.get().status == 200)
        }
        #expect(try client.result(Self.request(name, hosts: ["LocalHost"]))?.get().status == 200)
        #expect(client.failure(Self.request(number, hosts: ["localhost"])) == .addressNotAllowed(host: "127.0.0.1"))
        #expect(client.failure(Self.request(number, ["10.0.0.0/8"])) == .addressNotAllowed(host: "127.0.0.1"))
        #expect(server.requests.count == 3)
    }

    /// Checks that a kept connection that one request was allowed to open is checked again for other requests.
    @Test func connectionsThatAreKeptAreLookedAtAgain() throws {
        let server = try CountingServer()
        let client = try HTTPClient()
        defer { client.stop() }
        let url = "http://127.0.0.1:\(server.port)/"
        for _ in 0..<2 { #expect(try client.result(.plain(url))?.get().status == 200) }
        #expect(server.server.connections == 1)
        #expect(client.failure(Self.request(url)) == .addressNotAllowed(host: "127.0.0.1"))
        #expect(server.requests.count == 2)
        #expect(try client.result(Self.request(url, ["127.0.0.1"]))?.get().status == 200)
    }

    @Test(arguments: [301, 302, 303, 307, 308]) func redirectsToPrivateAddressesAreRefused(_ status: Int) throws {
        let inside = try CountingServer()
        let target = "http://localhost:\(inside.port)/latest/meta-data"
        let outside = try CountingServer { _, exchange in
            exchange.respond(status: status, headers: ["Location": HTTPHeaders.Value(target)])
        }
        let client = try HTTPClient()
        defer { client.stop() }
        let request = Self.request("http://127.0.0.1:\(outside.port)/", hosts: ["127.0.0.1"])
        #expect(client.failure(request) == .addressNotAllowed(host: "localhost"))
        #expect(outside.requests.count == 1)
        #expect(inside.requests.isEmpty)
    }

    /// Checks that an allowed address without a listener is only reported as unreachable.
    @Test func whatIsAllowedButNotThereIsUnreachable() throws {
        let server = try CountingServer()
        let url = "http://127.0.0.1:\(server.port)/"
        server.server.stop()
        let client = try HTTPClient()
        defer { client.stop() }
        guard case .unreachable = client.failure(Self.request(url, ["127.0.0.0/8"])) else {
            Issue.record("it was reached, or refused")
            return
        }
    }
}
