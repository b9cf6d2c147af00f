import COpenSSL
import Glibc
import Synchronization
import TLS
import Testing

@testable import HTTPServer

struct TLSTests {
    private static func server(
        _ certificate: TestCertificate, _ configure: (inout HTTPServerSettings) -> Void = { _ in },
        _ handle: @escaping TestServer.Handle = TestServer.echo
    ) throws -> TestServer {
        let identity = try TLSIdentity(certificateFile: certificate.certificateFile, keyFile: certificate.keyFile)
        return try TestServer(
            { settings in
                settings.tlsAddresses = [ListenAddress(host: "127.0.0.1", port: 0)]
                settings.tls = identity
                configure(&settings)
            }, handle)
    }

    @Test(arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func answersOverBothVersions(_ version: Int32) throws {
        let server = try Self.server(TestCertificate())
        let tls = try TestTLS(version: version, protocols: ["h2", "http/1.1"])
        let client = try TestClient(port: server.securePort, tls: tls)
        #expect(tls.version == version)
        #expect(tls.chosenProtocol == "http/1.1")
        for number in 0..<3 {
            #expect(try client.exchange("GET /\(number) HTTP/1.1\r\nHost: a\r\n\r\n").text == "GET /\(number)|")
        }
        // The plain port still works.
        #expect(try TestClient(port: server.port).exchange("GET /p HTTP/1.1\r\nHost: a\r\n\r\n").text == "GET /p|")
        #expect(server.server.statistics.handshakes == 1)
    }

    @Test func refusesWhatIsTooOldOrNotSpoken() throws {
        let server = try Self.server(TestCertificate())
        for make in [
            { try TestTLS(version: TLS1_1_VERSION) }, { try TestTLS(protocols: ["h2"]) },
        ] {
            #expect(throws: ClientFailure.self) { try TestClient(port: server.securePort, tls: make()) }
        }
        eventually { server.server.statistics.failedHandshakes == 2 && server.server.statistics.activeConnections == 0 }
    }

    @Test func plainHTTPIsRefused() throws {
        let server = try Self.server(TestCertificate())
        let client = try TestClient(port: server.securePort)
        let answer = try client.exchange("GET /secret.json HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(answer.status == 400 && answer.text.contains("HTTPS"))
        #expect(client.isClosedByServer())
        // A connection whose input is not even HTTP is closed.
        let noise = try TestClient(port: server.securePort)
        try noise.send(Array(repeating: 0x2A, count: 5000))
        _ = try? noise.receiveAll()
        eventually { server.server.statistics.activeConnections == 0 }
        #expect(server.server.statistics.failedHandshakes == 2)
        #expect(server.server.statistics.requests == 0)
    }

    @Test func silentPeersAreClosed() throws {
        let server = try Self.server(TestCertificate()) { $0.tlsHandshakeTimeoutMilliseconds = 60 }
        let client = try TestClient(port: server.securePort)
        try client.send([0x16, 0x03, 0x01])
        #expect(client.isClosedByServer())
        #expect(server.server.statistics.timeouts == 1)
    }

    @Test func pipelinedAndInPieces() throws {
        let server = try Self.server(TestCertificate())
        let client = try TestClient(port: server.securePort, tls: TestTLS())
        let text = (0..<200).map { "GET /\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined()
        try client.send(text)
        for number in 0..<200 { #expect(try client.receiveResponse().text == "GET /\(number)|") }
        for byte in "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n".utf8 { try client.send([byte]) }
        #expect(try client.receiveResponse().text == "GET /slow|")
    }

    @Test func largeBodiesBothWays() throws {
        let server = try Self.server(TestCertificate())
        let client = try TestClient(port: server.securePort, tls: TestTLS(), receiveBuffer: 8192)
        for size in [16_383, 16_384, 16_385, 65_536, 1_500_000] {
            let body = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 / 251) }
            try client.send("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: \(size)\r\n\r\n")
            try client.send(body)
            #expect(try client.receiveResponse().body == Array("PUT /x|".utf8) + body)
        }
    }

    /// A reader is so slow that events wait, partly encrypted already, while others are dropped: it receives whole
    /// events in order.
    @Test func slowStreamsLoseOnlyWholeEvents() throws {
        let sent = Notes<Int>()
        let dropped = Notes<Int>()
        let oneLoop = { (settings: inout HTTPServerSettings) in settings.loops = 1 }
        let server = try Self.server(TestCertificate(), oneLoop) { request, exchange in
            exchange.startStream(headers: ["Content-Type": "text/event-stream"])
            var next = 0
            let timer = exchange.loop.schedule(everyMilliseconds: 1) {
                for _ in 0..<20 where next < 4000 {
                    let text = "event \(next) " + String(repeating: "x", count: 37 * (next % 100)) + "\n"
                    exchange.send(SharedBytes(utf8: text))
                    sent.add(next)
                    next += 1
                }
                if exchange.queuedOutputBytes > 100_000 {
                    dropped.add(exchange.dropQueuedOutput().count)
                }
                if next == 4000 {
                    exchange.close()
                    next += 1
                }
            }
            exchange.onClose = { timer.cancel() }
        }
        let client = try TestClient(port: server.securePort, tls: TestTLS(), receiveBuffer: 4096)
        try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(try client.receiveHead().status == 200)
        eventually { dropped.count > 3 }
        let lines = try client.receiveAll().split(separator: 10).map { String(decoding: $0, as: UTF8.self) }
        var last = -1
        for line in lines {
            let words = line.split(separator: " ")
            guard words.count >= 2, words[0] == "event", let number = Int(words[1]) else {
                Issue.record("not an event: \(line.prefix(80))")
                return
            }
            #expect(number > last)
            #expect((words.count == 3 ? words[2].count : 0) == 37 * (number % 100))
            last = number
        }
        #expect(lines.count + dropped.all.reduce(0, +) == sent.count)
        #expect(dropped.all.contains { $0 > 0 })
    }

    @Test(arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func resumesByTicket(_ version: Int32) throws {
        let server = try Self.server(TestCertificate(), { $0.loops = 2 })
        let first = try TestTLS(version: version)
        let client = try TestClient(port: server.securePort, tls: first)
        // With TLS 1.3 the ticket comes with the first input.
        _ = try client.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        let second = try TestTLS(version: version, resuming: first)
        let again = try TestClient(port: server.securePort, tls: second)
        #expect(try again.exchange("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n").text == "GET /2|")
        #expect(second.isResumed)
        #expect(server.server.statistics.resumedHandshakes == 1)
    }

    @Test func newFilesAreForNewConnections() throws {
        let certificate = try TestCertificate(serial: 1)
        let identity = try TLSIdentity(certificateFile: certificate.certificateFile, keyFile: certificate.keyFile)
        let server = try Self.server(certificate) { $0.tls = identity }
        let (old, new) = (try TestTLS(), try TestTLS())
        let client = try TestClient(port: server.securePort, tls: old)
        let other = try TestCertificate(serial: 2)
        try certificate.write("no certificate", to: certificate.certificateFile)
        #expect { try identity.reload() } throws: { "\($0)".contains(certificate.certificateFile) }
        #expect(try Self.serialShown(by: server) == 1)
        // Only one of the two files has been replaced so far.
        let mixed = TLSError.mismatch(
            certificateFile: other.certificateFile, keyFile: certificate.keyFile)
        #expect(throws: mixed) {
            try TLSIdentity(certificateFile: other.certificateFile, keyFile: certificate.keyFile)
        }
        try certificate.write(serial: 3)
        try identity.reload()
        _ = try TestClient(port: server.securePort, tls: new)
        #expect(new.serial == 3)
        #expect(try client.exchange("GET /old HTTP/1.1\r\nHost: a\r\n\r\n").text == "GET /old|")
        #expect(old.serial == 1)
        #expect(identity.expiresAt > Int64(time(nil)) + 80_000)
    }

    private static func serialShown(by server: TestServer) throws -> Int? {
        let tls = try TestTLS()
        _ = try TestClient(port: server.securePort, tls: tls)
        return tls.serial
    }

    @Test func goodbyesAndHalfCloses() throws {
        let server = try Self.server(TestCertificate())
        let tls = try TestTLS()
        let client = try TestClient(port: server.securePort, tls: tls)
        try client.send("GET /last HTTP/1.1\r\nHost: a\r\n\r\n")
        tls.finishSending()
        #expect(try client.receiveResponse().text == "GET /last|")
        #expect(client.isClosedByServer())
        let closing = try TestClient(port: server.securePort, tls: TestTLS())
        #expect(try closing.exchange("GET /c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").status == 200)
        // The server sends close_notify, and not only the end of input.
        #expect(try closing.receiveAll().isEmpty)
        eventually { server.server.statistics.activeConnections == 0 }
    }

    @Test func drainsAndBreaksWithoutLeaks() throws {
        let server = try Self.server(TestCertificate())
        for _ in 0..<20 {
            let client = try TestClient(port: server.securePort, tls: TestTLS())
            try client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc")
            client.reset()
        }
        eventually { server.server.statistics.activeConnections == 0 }
        #expect(server.server.budget.bodyBytesTaken == 0)
        let idle = try TestClient(port: server.securePort, tls: TestTLS())
        let shaking = try TestClient(port: server.securePort)
        eventually { server.server.statistics.activeConnections == 2 }
        server.server.stop(deadlineMilliseconds: 5000)
        #expect(try idle.receiveAll().isEmpty)
        #expect(shaking.isClosedByServer())
    }
}
