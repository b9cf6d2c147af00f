import HTTPServer
import Testing

@testable import HTTPServer

/// Checks bodies: chunked, with Expect, too long, too many, cut off.
@Suite struct UploadTests {
    private static let head = "PUT /u HTTP/1.1\r\nHost: a\r\n"

    @Test func chunked() throws {
        let server = try TestServer(TestServer.echo)
        let client = try TestClient(port: server.port)
        for _ in 0..<2 {
            let response = try client.exchange(
                Self.head + "Transfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n5\r\npedia\r\n0\r\n\r\n")
            #expect(response.text == "PUT /u|wikipedia")
        }
    }

    @Test func largeBodiesBothWays() throws {
        let server = try TestServer(TestServer.echo)
        let client = try TestClient(port: server.port)
        let body = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        try client.send(Array((Self.head + "Content-Length: 3000000\r\n\r\n").utf8) + body)
        #expect(try client.receiveResponse().body == Array("PUT /u|".utf8) + body)
        let chunk = Array("2dc6c0\r\n".utf8) + body + Array("\r\n0\r\n\r\n".utf8)
        try client.send(Array((Self.head + "Transfer-Encoding: chunked\r\n\r\n").utf8) + chunk)
        #expect(try client.receiveResponse().body == Array("PUT /u|".utf8) + body)
        #expect(server.server.budget.bodyBytesTaken == 0)
    }

    @Test func expectContinue() throws {
        let server = try TestServer(TestServer.echo)
        let client = try TestClient(port: server.port)
        for _ in 0..<2 {
            try client.send(Self.head + "Content-Length: 2\r\nExpect: 100-Continue\r\n\r\n")
            #expect(try client.receiveHead().status == 100)
            #expect(try client.exchange("ok").text == "PUT /u|ok")
        }
        // A body that arrived with its head needs no interim answer.
        #expect(
            try client.exchange(Self.head + "Content-Length: 2\r\nExpect: 100-continue\r\n\r\nok").text == "PUT /u|ok")
    }

    @Test func tooLongIsRefusedBeforeItIsSent() throws {
        let server = try TestServer({ $0.maxBodyBytes = 10 }, TestServer.echo)
        let client = try TestClient(port: server.port)
        let response = try client.exchange(Self.head + "Content-Length: 11\r\nExpect: 100-continue\r\n\r\n")
        #expect(response.status == 413)
        #expect(response.headers["connection"] == "close")
        #expect(response.headers["content-type"] == "application/json; charset=utf-8")
        #expect(response.text == "{\n  \"error\" : \"The request's body is too large.\"\n}\n")
        #expect(client.isClosedByServer())
    }

    /// Before its first chunk a body has no announced length. The live fuzzer found a body refused at this point.
    @Test func aChunkedBodyMayComeAfterItsHead() throws {
        let server = try TestServer({ ($0.maxBodyBytes, $0.maxPlainBodyBytes) = (1_000_000, 1_000) }, TestServer.echo)
        let client = try TestClient(port: server.port)
        // An interim answer shows that the head was read separately.
        try client.send(Self.head + "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
        #expect(try client.receiveHead().status == 100)
        #expect(try client.exchange("2\r\nok\r\n0\r\n\r\n").text == "PUT /u|ok")
        #expect(try client.exchange(Self.head + "Content-Length: 1001\r\n\r\n").status == 413)
    }

    /// The refusal must be readable although the client continues to send.
    @Test func aRefusedClientThatKeepsSendingCanReadWhy() throws {
        let server = try TestServer({ $0.maxBodyBytes = 1000 }, TestServer.echo)
        let client = try TestClient(port: server.port)
        try client.send(Self.head + "Transfer-Encoding: chunked\r\n\r\n")
        let chunk = "1000\r\n" + String(repeating: "x", count: 4096) + "\r\n"
        for _ in 0..<50 { try client.send(chunk) }
        #expect(try client.receiveResponse().status == 413)
        client.finishSending()
        #expect(client.isClosedByServer())
        eventually { server.server.budget.bodyBytesTaken == 0 }
    }

    @Test func bodiesOfAllTogetherAreBounded() throws {
        let server = try TestServer({ $0.memory = MemoryBudget(bytes: 100_000) }, TestServer.echo)
        let first = try TestClient(port: server.port)
        try first.send(Self.head + "Content-Length: 80000\r\n\r\n" + String(repeating: "x", count: 79_999))
        eventually { server.server.budget.bodyBytesTaken == 79_999 }
        let second = try TestClient(port: server.port)
        let response = try second.exchange(
            Self.head + "Content-Length: 30000\r\n\r\n" + String(repeating: "x", count: 30_000))
        #expect(response.status == 503)
        #expect(response.headers["retry-after"] == "1")
        #expect(try first.exchange("y").status == 200)
        eventually { server.server.budget.bodyBytesTaken == 0 }
        #expect(server.server.statistics.rejected == 1)
        // Connections that are cut off release their shares, too.
        let third = try TestClient(port: server.port)
        try third.send(Self.head + "Content-Length: 80000\r\n\r\n" + String(repeating: "x", count: 50_000))
        eventually { server.server.budget.bodyBytesTaken == 50_000 }
        third.reset()
        eventually { server.server.budget.bodyBytesTaken == 0 }
    }

    @Test func aTruncatedBodyIsNoRequest() throws {
        let server = try TestServer(TestServer.echo)
        let client = try TestClient(port: server.port)
        try client.send(Self.head + "Content-Length: 10\r\n\r\nhalf")
        client.finishSending()
        #expect(try client.receiveResponse().status == 400)
        #expect(client.isClosedByServer())
        #expect(server.server.statistics.requests == 0)
        eventually { server.server.statistics.activeConnections == 0 }
    }
}
