import HTTPServer
import Testing

/// Checks requests sent before their predecessors are answered.
@Suite struct PipeliningTests {
    private static func requests(_ count: Int) -> String {
        (0..<count).map { "PUT /\($0) HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi" }.joined()
    }

    private func expectAnswers(_ client: TestClient, _ count: Int) throws {
        for number in 0..<count {
            #expect(try client.receiveResponse().text == "PUT /\(number)|hi")
        }
    }

    @Test func answeredAtOnce() throws {
        let server = try TestServer(TestServer.echo)
        let client = try TestClient(port: server.port)
        try client.send(Self.requests(100))
        try expectAnswers(client, 100)
    }

    @Test func answeredLater() throws {
        let server = try TestServer { request, exchange in
            exchange.reference.perform { TestServer.echo(request, $0) }
        }
        let client = try TestClient(port: server.port)
        try client.send(Self.requests(100))
        try expectAnswers(client, 100)
    }

    @Test func someAtOnceSomeLater() throws {
        let server = try TestServer { request, exchange in
            if request.target.last == 0x33 {
                exchange.reference.perform { TestServer.echo(request, $0) }
            } else {
                TestServer.echo(request, exchange)
            }
        }
        let client = try TestClient(port: server.port)
        try client.send(Self.requests(100))
        try expectAnswers(client, 100)
    }

    /// Sends far more requests than are buffered: the rest stays in the socket and is read later. The stack must not
    /// grow with their number.
    @Test(arguments: [false, true]) func manyThousand(_ later: Bool) throws {
        let server = try TestServer { request, exchange in
            if later {
                exchange.reference.perform { TestServer.echo(request, $0) }
            } else {
                TestServer.echo(request, exchange)
            }
        }
        let client = try TestClient(port: server.port)
        for _ in 0..<20 {
            try client.send(Self.requests(500))
            try expectAnswers(client, 500)
        }
        #expect(server.server.statistics.requests == 10_000)
    }

    /// If answers are larger than the socket's buffer, the next request waits until they are sent.
    @Test func largeAnswersInARow() throws {
        let body = [UInt8](repeating: 0x78, count: 1_000_000)
        let server = try TestServer { _, exchange in exchange.respond(status: 200, body: body) }
        let client = try TestClient(port: server.port, receiveBuffer: 4096)
        try client.send(Self.requests(10))
        for _ in 0..<10 { #expect(try client.receiveResponse().body == body) }
    }

    @Test func allAreAnsweredAfterTheEndOfInput() throws {
        let server = try TestServer { request, exchange in
            exchange.reference.perform { TestServer.echo(request, $0) }
        }
        let client = try TestClient(port: server.port)
        try client.send(Self.requests(10))
        client.finishSending()
        try expectAnswers(client, 10)
        #expect(client.isClosedByServer())
    }

    @Test func garbageAfterARequestIsRefusedAfterItsAnswer() throws {
        let server = try TestServer(TestServer.echo)
        let client = try TestClient(port: server.port)
        try client.send(Self.requests(1) + "\u{1}\u{2}\u{3}")
        try expectAnswers(client, 1)
        let refusal = try client.receiveResponse()
        #expect(refusal.status == 400)
        #expect(refusal.headers["connection"] == "close")
        #expect(client.isClosedByServer())
    }

    @Test func emptyLinesBetweenRequestsAreSkipped() throws {
        let server = try TestServer(TestServer.echo)
        let client = try TestClient(port: server.port)
        for number in 0..<3 {
            let response = try client.exchange("\r\n\r\nGET /\(number) HTTP/1.1\r\nHost: a\r\n\r\n\r\n")
            #expect(response.text == "GET /\(number)|")
        }
    }
}
