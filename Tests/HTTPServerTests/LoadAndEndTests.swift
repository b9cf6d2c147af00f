import Glibc
import Testing

@testable import HTTPServer

/// Checks many connections, malformed input, and the server's end.
@Suite struct LoadAndEndTests {
    private static let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    @Test func aThousandIdleConnections() throws {
        let server = try TestServer({ $0.loops = 2 }, TestServer.echo)
        let clients = try (0..<1000).map { _ in try TestClient(port: server.port) }
        eventually { server.server.statistics.activeConnections == 1000 }
        for client in clients.reversed() { #expect(try client.exchange(Self.get).status == 200) }
        for client in clients { client.close() }
        eventually { server.server.statistics.activeConnections == 0 }
    }

    @Test func overTheLimitGets503() throws {
        let server = try TestServer({ $0.maxConnections = 2 }, TestServer.echo)
        let first = try TestClient(port: server.port)
        let second = try TestClient(port: server.port)
        #expect(try first.exchange(Self.get).status == 200)
        #expect(try second.exchange(Self.get).status == 200)
        let third = try TestClient(port: server.port)
        let refusal = try third.exchange(Self.get)
        #expect(refusal.status == 503)
        #expect(refusal.headers["retry-after"] == "1")
        third.close()
        second.close()
        eventually { server.server.statistics.activeConnections == 1 }
        #expect(try TestClient(port: server.port).exchange(Self.get).status == 200)
    }

    /// However many connections exceed the limit, only a bounded number of them uses memory, and those within the limit
    /// continue.
    @Test func aFloodOverTheLimit() throws {
        let server = try TestServer(
            {
                $0.maxConnections = 1
                $0.lingerTimeoutMilliseconds = 100
            }, TestServer.echo)
        let first = try TestClient(port: server.port)
        #expect(try first.exchange(Self.get).status == 200)
        let flood = try (0..<600).map { _ in try TestClient(port: server.port) }
        eventually { server.server.statistics.rejected == 600 }
        #expect(server.server.statistics.activeConnections <= 257)
        #expect(try first.exchange(Self.get).status == 200)
        eventually { server.server.statistics.activeConnections == 1 }
        for client in flood { client.close() }
    }

    /// Sends random bytes, and valid requests with random damage, while other clients are served.
    @Test(arguments: [1, 2, 3, 4] as [UInt64]) func garbageHurtsNoOtherClient(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let server = try TestServer(
            {
                $0.headerTimeoutMilliseconds = 200
                $0.lingerTimeoutMilliseconds = 50
                $0.maxBodyBytes = 10_000
            }, TestServer.echo)
        let good = try TestClient(port: server.port)
        let model = Array(
            ("PUT /a?b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
                + "3\r\nabc\r\n0\r\n\r\n").utf8)
        for round in 0..<300 {
            let bad = try TestClient(port: server.port)
            var bytes: [UInt8] = []
            if round % 3 == 0 {
                bytes = (0..<Int.random(in: 1...2000, using: &random)).map { _ in
                    UInt8.random(in: 0...255, using: &random)
                }
            } else {
                for _ in 0..<Int.random(in: 1...4, using: &random) { bytes += model }
                for _ in 0..<Int.random(in: 0...6, using: &random) {
                    let index = Int.random(in: 0..<bytes.count, using: &random)
                    switch Int.random(in: 0...2, using: &random) {
                    case 0: bytes[index] = UInt8.random(in: 0...255, using: &random)
                    case 1: bytes.remove(at: index)
                    default: bytes.insert(UInt8.random(in: 0...255, using: &random), at: index)
                    }
                }
            }
            try? bad.send(bytes)
            switch Int.random(in: 0...3, using: &random) {
            case 0: bad.reset()
            case 1: bad.finishSending()
            default: break
            }
            #expect(try good.exchange(Self.get).status == 200, "seed \(seed), round \(round)")
        }
        good.close()
        eventually { server.server.statistics.activeConnections == 0 }
        eventually { server.server.budget.bodyBytesTaken == 0 }
    }

    @Test func drainingEndsIdleConnectionsAndAnswersTheRest() throws {
        let references = Notes<ExchangeReference>()
        let server = try TestServer { request, exchange in
            if request.targetText == "/slow" {
                references.add(exchange.reference)
            } else {
                exchange.respond(status: 200)
            }
        }
        let idle = try TestClient(port: server.port)
        #expect(try idle.exchange(Self.get).status == 200)
        let busy = try TestClient(port: server.port)
        try busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        eventually { references.count == 1 }
        server.server.beginDrain()
        #expect(idle.isClosedByServer())
        eventually { server.drains == 1 }
        #expect(throws: ClientFailure.self) { try TestClient(port: server.port) }
        references.all[0].perform { $0.respond(status: 200) }
        let response = try busy.receiveResponse()
        #expect(response.status == 200)
        #expect(response.headers["connection"] == "close")
        busy.close()
        server.server.stop(deadlineMilliseconds: 10_000)
        #expect(server.stops == 1)
        #expect(server.drains == 1)
        #expect(server.server.statistics.activeConnections == 0)
    }

    @Test func stoppingClosesWhatIsLeftAtItsDeadline() throws {
        let closed = Notes<Int>()
        let handle: TestServer.Handle = { _, exchange in
            exchange.onClose = { closed.add(1) }
            exchange.startStream()
        }
        let server = try TestServer({ $0.loops = 2 }, handle)
        let clients = try (0..<10).map { _ in try TestClient(port: server.port) }
        for client in clients {
            try client.send(Self.get)
            _ = try client.receiveHead()
        }
        server.server.stop(deadlineMilliseconds: 50)
        #expect(closed.count == 10)
        #expect(server.stops == 2)
        #expect(server.server.loops.allSatisfy { !$0.post {} })
        for client in clients { #expect(client.isClosedByServer()) }
        server.server.stop(deadlineMilliseconds: 50)
    }

    @Test func aServerThatNeverStartedCanBeStopped() throws {
        var settings = HTTPServerSettings()
        settings.loops = 2
        let server = try HTTPServer(settings: settings) { _ in fatalError("no loop is started") }
        server.stop(deadlineMilliseconds: 0)
        #expect(throws: ClientFailure.self) { try TestClient(port: server.boundAddresses[0].port) }
    }

    @Test func mistakesInSettingsAreReportedTogether() {
        var settings = HTTPServerSettings()
        settings.loops = 0
        settings.maxHeaderBytes = 1_000_000
        settings.idleTimeoutMilliseconds = 0
        let error = #expect(throws: HTTPServerError.self) {
            _ = try HTTPServer(settings: settings) { _ in fatalError("no loop is started") }
        }
        guard case .invalidSettings(let mistakes) = error else { return }
        #expect(mistakes.count == 3)
    }

    /// Runs in a process of its own, as the test uses up all descriptors.
    @Test func withoutDescriptorsTheServerNeitherSpinsNorDies() async {
        await #expect(processExitsWith: .success) {
            let server = try TestServer(TestServer.echo)
            let client = try TestClient(port: server.port)
            #expect(try client.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status == 200)
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            // One descriptor is left for the client that is to be refused.
            let next = dup(0)
            close(next)
            limit.rlim_cur = rlim_t(next + 1)
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            let refused = try TestClient(port: server.port)
            guard refused.isClosedByServer() else { exit(3) }
            refused.close()
            guard server.server.statistics.rejected == 1 else { exit(4) }
            guard try client.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status == 200 else { exit(5) }
            limit.rlim_cur += 10
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            let later = try TestClient(port: server.port)
            guard try later.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status == 200 else { exit(6) }
            exit(0)
        }
    }
}
