import HTTPServer
import Testing

/// Checks ordinary requests and their answers over real sockets.
@Suite struct AnsweringTests {
    @Test func keepAliveServesOneAfterTheOther() throws {
        let server = try TestServer(TestServer.echo)
        let client = try TestClient(port: server.port)
        for number in 0..<5 {
            let response = try client.exchange("GET /\(number) HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(response.status == 200)
            #expect(response.text == "GET /\(number)|")
            #expect(response.headers["date"]?.count == 29)
            #expect(response.headers["connection"] == nil)
        }
        #expect(server.server.statistics.requests == 5)
        #expect(server.server.statistics.accepted == 1)
    }

    @Test func everyCutOfTheBytesGivesTheSameAnswer() throws {
        let server = try TestServer(TestServer.echo)
        let request = Array("PUT /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello".utf8)
        let client = try TestClient(port: server.port)
        for cut in 1..<request.count {
            let before = server.server.statistics.bytesIn
            try client.send(Array(request[..<cut]))
            eventually { server.server.statistics.bytesIn == before + cut }
            try client.send(Array(request[cut...]))
            #expect(try client.receiveResponse().text == "PUT /p|hello")
        }
    }

    @Test func closingRules() throws {
        let server = try TestServer(TestServer.echo)
        func connection(_ request: String) throws -> (String?, closed: Bool) {
            let client = try TestClient(port: server.port)
            let response = try client.exchange(request)
            if response.headers["connection"] == "close" { return ("close", client.isClosedByServer()) }
            return (response.headers["connection"], try client.exchange(request).status != 200)
        }
        #expect(try connection("GET / HTTP/1.1\r\nHost: a\r\n\r\n") == (nil, false))
        #expect(try connection("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") == ("close", true))
        #expect(try connection("GET / HTTP/1.0\r\n\r\n") == ("close", true))
        #expect(try connection("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n") == ("keep-alive", false))
        #expect(try connection("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n") == ("close", true))
    }

    @Test func headAnd204And304HaveNoBody() throws {
        let server = try TestServer { request, exchange in
            let status = Int(String(decoding: request.path.dropFirst(), as: UTF8.self)) ?? 0
            exchange.respond(status: status, body: Array("12345".utf8))
        }
        let client = try TestClient(port: server.port)
        try client.send("HEAD /200 HTTP/1.1\r\nHost: a\r\n\r\n")
        let head = try client.receiveResponse(isHead: true)
        #expect(head.headers["content-length"] == "5")
        for status in [204, 304] {
            let response = try client.exchange("GET /\(status) HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(response.status == status)
            #expect(response.headers["content-length"] == nil)
        }
        #expect(try client.exchange("GET /299 HTTP/1.1\r\nHost: a\r\n\r\n").text == "12345")
    }

    @Test func contentOfARequest() throws {
        let notes = Notes<HTTPRequest>()
        let server = try TestServer { request, exchange in
            notes.add(request)
            exchange.respond(status: 200)
        }
        let client = try TestClient(port: server.port)
        _ = try client.exchange(
            "GET http://abs:80/p%20q?r=%2F HTTP/1.1\r\nHost: other\r\n"
                + "Accept:  text/event-stream \r\nX: 1\r\nx: 2\r\n\r\n"
        )
        _ = try client.exchange("PROPFIND /x HTTP/1.1\r\nHOST: h.example\r\n\r\n")
        let first = try #require(notes.all.first)
        let second = try #require(notes.all.last)
        #expect(first.method == .get)
        #expect(first.targetText == "http://abs:80/p%20q?r=%2F")
        #expect(Array(first.path) == Array("/p%20q".utf8))
        #expect(first.query.map { Array($0) } == Array("r=%2F".utf8))
        #expect(first.host.map { Array($0) } == Array("abs:80".utf8))
        #expect(first.headerText("accept") == "text/event-stream")
        #expect(first.headerText("x") == "1")
        #expect(first.headerText("y") == nil)
        #expect(first.headers.map(\.name) == ["host", "accept", "x", "x"])
        #expect(first.remoteAddress == "127.0.0.1")
        #expect(first.isLoopbackPeer)
        #expect(second.method == .other("PROPFIND"))
        #expect(second.query == nil)
        #expect(second.host.map { Array($0) } == Array("h.example".utf8))
    }

    @Test func answersFromAnotherThread() throws {
        let server = try TestServer { request, exchange in
            let reference = exchange.reference
            let text = request.targetText
            // Both are queued on the loop; the second answer finds no open exchange.
            reference.perform { $0.respond(status: 200, body: Array(text.utf8)) }
            reference.perform { $0.respond(status: 500) }
        }
        let client = try TestClient(port: server.port)
        for number in 0..<50 {
            #expect(try client.exchange("GET /\(number) HTTP/1.1\r\nHost: a\r\n\r\n").text == "/\(number)")
        }
    }

    @Test func largeAnswersArriveWhole() throws {
        let body = (0..<8_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let server = try TestServer { _, exchange in exchange.respond(status: 200, body: body) }
        let client = try TestClient(port: server.port, receiveBuffer: 4096)
        for _ in 0..<2 {
            let response = try client.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(response.body == body)
        }
    }

    @Test func headersCannotBeSplitByTheirValues() throws {
        let server = try TestServer { request, exchange in
            var headers: HTTPHeaders = ["X-A": "a\r\nX-Evil: 1"]
            headers.add("X-Seq", 18_446_744_073_709_551_615)
            exchange.respond(status: 599, headers: headers)
        }
        let response = try TestClient(port: server.port).exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(response.status == 599)
        #expect(response.headers["x-a"] == "a  X-Evil: 1")
        #expect(response.headers["x-evil"] == nil)
        #expect(response.headers["x-seq"] == "18446744073709551615")
    }

    @Test func aSecondServerOnThePortIsRefused() throws {
        for loops in [1, 2] {
            let server = try TestServer({ $0.loops = loops }, TestServer.echo)
            var settings = HTTPServerSettings()
            settings.addresses = server.server.boundAddresses
            settings.loops = loops
            #expect(throws: HTTPServerError.self) {
                _ = try HTTPServer(settings: settings) { _ in fatalError("no loop is started") }
            }
        }
    }

    @Test func severalAddressesAndLoops() throws {
        let server = try TestServer(
            {
                $0.addresses = [ListenAddress(host: "127.0.0.1", port: 0), ListenAddress(host: "localhost", port: 0)]
                $0.loops = 3
            }, TestServer.echo)
        for address in server.server.boundAddresses {
            #expect(address.port != 0)
            for _ in 0..<20 {
                let client = try TestClient(port: address.port)
                #expect(try client.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
            }
        }
    }
}
