import ClientCore
import ClientSupport
import Crypto
import HTTPServer
import Runtime
import TLS
import TestSupport
import Testing
import WebSocketClient

/// Tests of TLS connections to servers with and without a valid identity.
@Suite(.timeLimit(.minutes(2))) struct SecureTests {
    @Test func aServerThatIsKnown() throws {
        try withServer { port, file in
            let (transport, recorder) = try client(trusting: .file(file))
            let channel = transport.connect(to: address(port, "localhost")) { recorder.take($0) }
            let long = String(repeating: "x", count: 3 << 20)
            for text in ["one", long, "three"] { channel.send(Array(text.utf8)) }
            #expect(recorder.waitForTexts(3) == ["one", long, "three"])
            channel.close()
            #expect(recorder.waitForClosure() == .byUs)
        }
    }

    @Test func aServerOfAnotherName() throws {
        try withServer { port, file in
            let (transport, recorder) = try client(trusting: .file(file))
            _ = transport.connect(to: address(port, "127.0.0.1")) { recorder.take($0) }
            guard case .insecure(let reason)? = recorder.waitForClosure() else {
                Issue.record("\(recorder.now.closures)")
                return
            }
            #expect(reason.lowercased().contains("mismatch"))
        }
    }

    @Test func aServerWithoutATrustedCertificate() throws {
        try withServer { port, _ in
            let (transport, recorder) = try client(trusting: .system)
            _ = transport.connect(to: address(port, "localhost")) { recorder.take($0) }
            guard case .insecure(let reason)? = recorder.waitForClosure() else {
                Issue.record("\(recorder.now.closures)")
                return
            }
            #expect(reason.contains("self-signed") || reason.contains("self signed"))
            #expect(!recorder.now.isOpen)
        }
    }

    @Test func aCertificateThatIsOver() throws {
        try withServer(TestCertificates.otherKey, TestCertificates.expiredCertificate) { port, file in
            let (transport, recorder) = try client(trusting: .file(file))
            _ = transport.connect(to: address(port, "localhost")) { recorder.take($0) }
            guard case .insecure? = recorder.waitForClosure() else {
                Issue.record("\(recorder.now.closures)")
                return
            }
        }
    }

    @Test func aServerWithoutTLS() throws {
        let server = try RawServer(["HTTP/1.1 400 Bad Request\r\n\r\n"])
        let (transport, recorder) = try client(trusting: .system)
        _ = transport.connect(to: address(server.port, "localhost")) { recorder.take($0) }
        guard case .insecure? = recorder.waitForClosure() else {
            Issue.record("\(recorder.now.closures)")
            return
        }
    }

    @Test func authoritiesThatAreNotThere() {
        #expect(throws: TLSError.self) { try WebSocketTransport(settings(.file("/no/such/file"))) }
    }

    private func settings(_ authorities: TLSTrust.Authorities) -> TransportSettings {
        var settings = TransportSettings()
        settings.authorities = authorities
        return settings
    }

    private func client(trusting authorities: TLSTrust.Authorities) throws -> (WebSocketTransport, ChannelRecorder) {
        (try WebSocketTransport(settings(authorities)), ChannelRecorder())
    }

    private func address(_ port: UInt16, _ host: String) -> RealtimeAddress {
        RealtimeAddress(host: host, port: port, isSecure: true, target: "/.ws")
    }

    /// Runs `body` with a server of the project's HTTPServer that echoes texts, and the file of its certificate.
    private func withServer(
        _ key: String = TestCertificates.rsaKey, _ certificate: String = TestCertificates.rsaCertificate,
        _ body: (UInt16, String) throws -> Void
    ) throws {
        let folder = TemporaryFolder.path("secure-client")
        defer { TemporaryFolder.remove(folder) }
        try TestFile.makeFolder(folder)
        let (keyFile, certificateFile) = (folder + "/key.pem", folder + "/certificate.pem")
        try TestFile.write(key, to: keyFile)
        try TestFile.write(certificate, to: certificateFile)
        let identity = try TLSIdentity(certificateFile: certificateFile, keyFile: keyFile)
        var settings = HTTPServerSettings()
        settings.tls = identity
        settings.addresses = []
        settings.tlsAddresses = [ListenAddress(host: "127.0.0.1", port: 0)]
        let server = try HTTPServer(settings: settings) { _ in EchoHandler() }
        try server.start()
        defer { server.stop(deadlineMilliseconds: 0) }
        try body(server.boundTLSAddresses.first?.port ?? 0, certificateFile)
    }
}

/// Sends texts back to WebSocket clients.
private final class EchoHandler: HTTPLoopHandler {
    private let parsers = WebSocketParsers(maxMessageBytes: 16 << 20)

    func requestReceived(_ request: HTTPRequest, _ exchange: HTTPExchange) {
        let key = request.headerText("sec-websocket-key") ?? ""
        let digest = Digest.sha1(Array("\(key)258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8))
        let accept = String(decoding: Base64.encode(digest), as: UTF8.self)
        let receiver = WebSocketReceiver(parsers)
        exchange.upgrade(headers: ["Upgrade": "websocket", "Sec-WebSocket-Accept": accept]) { bytes in
            let isGood = receiver.take(bytes) { event in
                if case .text(let text) = event { exchange.send(SharedBytes(WebSocketFrame.text(text))) }
            }
            let output = receiver.takeOutput()
            if !output.isEmpty { exchange.send(SharedBytes(output)) }
            if !isGood { exchange.close() }
        }
    }

    func loopWillDrain() {}
    func loopWillStop() {}
}
