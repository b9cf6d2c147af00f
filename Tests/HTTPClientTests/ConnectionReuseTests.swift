import HTTPClient
import HTTPServer
import Runtime
import TLS
import TestSupport
import Testing

/// Checks that unsolicited bytes from a server are never taken for a response, and cost no request an attempt.
@Suite struct ConnectionReuseTests {
    private static let good = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
    private static let bad = "HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nbad"

    /// Lets a server answer a request on its first connection, and then send stray bytes there. Returns the result of
    /// the second request.
    private func second(
        _ answer: String = good, stray: String, ends: Bool = false, identity: TLSIdentity? = nil,
        settings: HTTPClient.Settings = .init()
    ) throws -> (result: Result<ClientResponse, HTTPClientError>?, connections: Int) {
        let mayStray = Condition(false)
        let hasStrayed = Condition(false)
        let server = try ScriptedServer(identity) { connection in
            guard connection.request() != nil else { return }
            guard connection.number == 0 else {
                connection.send(Self.bad)
                while connection.request() != nil { connection.send(Self.bad) }
                return
            }
            connection.send(answer)
            _ = mayStray.wait(milliseconds: 30_000) { $0 ? true : nil }
            connection.send(stray)
            if ends { connection.end() }
            hasStrayed.broadcast { $0 = true }
            while connection.request() != nil { connection.send(Self.bad) }
        }
        let client = try HTTPClient(settings)
        defer { client.stop() }
        let url = identity == nil ? server.url() : "https://localhost:\(server.port)/"
        let first = client.result(.plain(url))
        #expect((200...299).contains(try #require(try first?.get()).status))
        mayStray.broadcast { $0 = true }
        _ = hasStrayed.wait(milliseconds: 30_000) { $0 ? true : nil }
        let result = client.result(.plain(url))
        return (result, server.connections)
    }

    private func expectRefusal(_ result: Result<ClientResponse, HTTPClientError>?) throws {
        let response = try #require(try result?.get())
        #expect(response.status == 500 && response.body == Array("bad".utf8))
    }

    @Test(arguments: [good, "HTTP/1.1 200 OK\r\nContent-Le", "H", "\r\n", "HTTP/1.1 100 Continue\r\n\r\n", good + good])
    func strayBytesAreNoResponse(_ stray: String) throws {
        let (result, connections) = try second(stray: stray)
        try expectRefusal(result)
        #expect(connections == 2)
    }

    @Test func aSilentConnectionIsUsedAgain() throws {
        let (result, connections) = try second(stray: "")
        try expectRefusal(result)
        #expect(connections == 1)
    }

    /// Checks stray bytes whose first part arrives with a complete response, and the rest later.
    @Test(arguments: [
        good, "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n",
    ])
    func strayBytesSplitAnywhere(_ answer: String) throws {
        for index in 0...Self.good.utf8.count {
            let (early, late) = (String(Self.good.prefix(index)), String(Self.good.dropFirst(index)))
            let (result, connections) = try second(answer + early, stray: late)
            let response = try #require(try result?.get(), "\(index)")
            #expect(response.status == 500, "\(index)")
            #expect(connections == 2, "\(index)")
        }
    }

    @Test func strayBytesUnderTLS() throws {
        let folder = TemporaryFolder.path("http-client")
        defer { TemporaryFolder.remove(folder) }
        try TestFiles.write(
            folder, ["key.pem": TestCertificates.rsaKey, "certificate.pem": TestCertificates.rsaCertificate])
        let identity = try TLSIdentity(certificateFile: folder + "/certificate.pem", keyFile: folder + "/key.pem")
        var settings = HTTPClient.Settings()
        settings.certificateAuthoritiesFile = folder + "/certificate.pem"
        for (answer, stray) in [(Self.good, Self.good), (Self.good + "H", "TTP/1.1 200 OK\r\n"), (Self.good, "")] {
            let (result, connections) = try second(answer, stray: stray, identity: identity, settings: settings)
            try expectRefusal(result)
            #expect(connections == (stray.isEmpty ? 1 : 2))
        }
    }

    // MARK: Connections that servers close

    @Test(arguments: [
        "", "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    ])
    func whatComesWhileAConnectionIsIdleIsNoResponse(_ farewell: String) throws {
        let (result, connections) = try second(stray: farewell, ends: true)
        try expectRefusal(result)
        #expect(connections == 2)
    }

    /// Checks a server that closes the connection while the request is in flight.
    @Test(arguments: [
        ("", true), ("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 400 Bad Request\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", false),
        ("HTTP/1.1 500 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", false),
    ])
    func aConnectionThatIsGivenUpCostsNoRequest(_ farewell: String, _ isRepeated: Bool) throws {
        let server = try ScriptedServer { connection in
            guard connection.request() != nil else { return }
            connection.send(Self.good)
            guard connection.number == 0, connection.request() != nil else { return }
            connection.send(farewell)
        }
        let client = try HTTPClient()
        defer { client.stop() }
        #expect(try client.result(.plain(server.url()))?.get().status == 200)
        let response = try #require(try client.result(.plain(server.url()))?.get())
        #expect((response.status == 200) == isRepeated)
        #expect(server.connections == (isRepeated ? 2 : 1))
    }

    /// Checks that such a response on a new connection is returned to the caller.
    @Test(arguments: [408, 400]) func aRefusalOnANewConnectionIsAResponse(_ status: Int) throws {
        let server = try ScriptedServer { connection in
            guard connection.request() != nil else { return }
            connection.send("HTTP/1.1 \(status) No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        }
        let client = try HTTPClient()
        defer { client.stop() }
        #expect(try client.result(.plain(server.url()))?.get().status == status)
        #expect(server.connections == 1)
    }

    /// Checks that a response that starts before the server can have received the request does not count as its answer.
    @Test func aResponseThatBeginsBeforeTheRequestIsThereIsNone() throws {
        let isOver = Condition(false)
        let server = try ScriptedServer { connection in
            guard connection.number == 0 else {
                guard connection.request() != nil else { return }
                return connection.send(Self.bad)
            }
            guard connection.request() != nil else { return }
            connection.send(Self.good)
            // Reads only the head of the second request, whose body does not fit into the buffers.
            guard connection.request(withBody: false) != nil else { return }
            connection.send(Self.good)
            _ = isOver.wait(milliseconds: 60_000) { $0 ? true : nil }
        }
        let client = try HTTPClient()
        defer { client.stop() }
        #expect(try client.result(.plain(server.url()))?.get().status == 200)
        var request = HTTPClientRequest.plain(server.url())
        request.method = "POST"
        request.body = [UInt8](repeating: 0x61, count: 32 << 20)
        let result = client.result(request)
        isOver.broadcast { $0 = true }
        #expect(try result?.get().status == 500)
        #expect(server.connections == 2)
    }

    // MARK: Shared connections

    @Test func connectionsAreSharedByNameOnly() throws {
        let server = try LocalServer { _, exchange in exchange.respond(status: 200) }
        let client = try HTTPClient()
        defer { client.stop() }
        for (name, connections) in [("a", 1), ("b", 2), ("a", 2), ("b", 2), ("", 3), ("", 3)] {
            var request = HTTPClientRequest.plain(server.url("/"))
            request.connections = name
            #expect(try client.result(request)?.get().status == 200)
            #expect(server.connections == connections)
        }
    }

    /// Checks that kept connections are bounded, and that those of names without requests are closed first.
    @Test func keptConnectionsAreBounded() throws {
        let server = try LocalServer { _, exchange in exchange.respond(status: 200) }
        var settings = HTTPClient.Settings()
        settings.maxConnections = 4
        let client = try HTTPClient(settings)
        defer { client.stop() }
        for number in 0..<20 {
            var request = HTTPClientRequest.plain(server.url("/"))
            request.connections = "\(number)"
            #expect(try client.result(request)?.get().status == 200)
        }
        #expect(eventually { server.connections <= 5 })
    }
}
