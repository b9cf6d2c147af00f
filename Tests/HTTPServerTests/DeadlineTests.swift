import HTTPServer
import Testing

/// Checks peers that are slow or silent.
@Suite struct DeadlineTests {
    @Test func slowHeaders() throws {
        let server = try TestServer({ $0.headerTimeoutMilliseconds = 80 }, TestServer.echo)
        let client = try TestClient(port: server.port)
        #expect(try client.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
        let response = try client.exchange("GET / HTTP/1.1\r\nHo")
        #expect(response.status == 408)
        #expect(response.headers["connection"] == "close")
        #expect(client.isClosedByServer())
        #expect(server.server.statistics.timeouts == 1)
    }

    /// Occasional bytes do not extend the deadline.
    @Test func drippedHeaders() throws {
        let server = try TestServer({ $0.headerTimeoutMilliseconds = 80 }, TestServer.echo)
        let client = try TestClient(port: server.port)
        do {
            for byte in Array("GET / HTTP/1.1\r\nX: ".utf8) { try client.send([byte]) }
            // Sent at full speed, the headers would exceed their size limit before the deadline.
            let clock = ContinuousClock()
            var next = clock.now
            while server.server.statistics.timeouts == 0 {
                guard clock.now >= next else { continue }
                try client.send("x")
                next = clock.now + .milliseconds(1)
            }
        } catch {
            // The server may have closed the connection by now.
        }
        eventually { server.server.statistics.timeouts == 1 }
        #expect(server.server.statistics.requests == 0)
    }

    @Test func slowBody() throws {
        let server = try TestServer(
            {
                $0.bodyTimeoutMilliseconds = 80
                $0.minBodyBytesPerSecond = 1_000_000
            }, TestServer.echo)
        let client = try TestClient(port: server.port)
        let response = try client.exchange("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc")
        #expect(response.status == 408)
        #expect(client.isClosedByServer())
    }

    /// A body that is fast enough may take longer than `bodyTimeoutMilliseconds`.
    @Test func aBodyThatIsFastEnough() throws {
        let server = try TestServer(
            {
                $0.bodyTimeoutMilliseconds = 40
                $0.minBodyBytesPerSecond = 1_000
            }, TestServer.echo)
        let client = try TestClient(port: server.port)
        try client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3001\r\n\r\n")
        let clock = ContinuousClock()
        let start = clock.now
        // 1,000 bytes extend the deadline by a second; the last byte is sent after several times
        // `bodyTimeoutMilliseconds`.
        try client.send(String(repeating: "x", count: 3000))
        while clock.now - start < .milliseconds(300) {
            #expect(server.server.statistics.timeouts == 0)
        }
        #expect(try client.exchange("y").status == 200)
    }

    @Test func idleConnectionsAreClosed() throws {
        let server = try TestServer({ $0.idleTimeoutMilliseconds = 60 }, TestServer.echo)
        let silent = try TestClient(port: server.port)
        let used = try TestClient(port: server.port)
        #expect(try used.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
        #expect(silent.isClosedByServer())
        #expect(used.isClosedByServer())
        eventually { server.server.statistics.activeConnections == 0 }
        #expect(server.server.statistics.timeouts == 0, "nothing was late")
    }

    /// A request whose handler takes long does not make its connection idle.
    @Test func answeringTakesAsLongAsItTakes() throws {
        let handle: TestServer.Handle = { _, exchange in
            let reference = exchange.reference
            exchange.loop.schedule(afterMilliseconds: 300) {
                exchange.loop.exchange(for: reference)?.respond(status: 200)
            }
        }
        let server = try TestServer({ $0.idleTimeoutMilliseconds = 40 }, handle)
        let client = try TestClient(port: server.port)
        #expect(try client.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
    }

    @Test func aPeerThatDoesNotReadIsCutOff() throws {
        let handle: TestServer.Handle = { _, exchange in
            exchange.respond(status: 200, body: [UInt8](repeating: 0, count: 20_000_000))
        }
        let server = try TestServer({ $0.writeStallTimeoutMilliseconds = 80 }, handle)
        let client = try TestClient(port: server.port, receiveBuffer: 4096)
        try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        eventually { server.server.statistics.timeouts == 1 }
        eventually { server.server.statistics.activeConnections == 0 }
    }
}
