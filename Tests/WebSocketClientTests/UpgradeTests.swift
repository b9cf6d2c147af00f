import ClientCore
import Testing

@testable import WebSocketClient

/// Tests of the request that opens a WebSocket, and of acceptable answers.
@Suite struct UpgradeTests {
    // The example of RFC 6455, section 1.3.
    private let upgrade = Upgrade(nonce: Array("the sample nonce".utf8))
    private let good =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

    @Test func theRequest() {
        #expect(upgrade.key == "dGhlIHNhbXBsZSBub25jZQ==")
        let address = RealtimeAddress(host: "::1", port: 9000, isSecure: false, target: "/.ws?v=5&ns=demo")
        let text = String(decoding: upgrade.request(address, headers: [("User-Agent", "test")]), as: UTF8.self)
        #expect(text.hasPrefix("GET /.ws?v=5&ns=demo HTTP/1.1\r\nHost: [::1]:9000\r\n"))
        #expect(text.hasSuffix("User-Agent: test\r\n\r\n"))
    }

    @Test func theAnswer() {
        let bytes = Array(good.utf8)
        for count in 0..<bytes.count { #expect(upgrade.read(Array(bytes[..<count])) == .incomplete) }
        #expect(upgrade.read(bytes) == .accepted(byteCount: bytes.count))
        #expect(upgrade.read(bytes + [0x81, 0]) == .accepted(byteCount: bytes.count))
    }

    @Test func refusals() {
        #expect(
            upgrade.read(Array("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbu\nsy".utf8))
                == .refused(status: 503, reason: "bu sy"))
        #expect(upgrade.read(Array("SSH-2.0".utf8)) == .refused(status: 0, reason: "the answer is not HTTP"))
        for wrong in [
            good.replacing("s3pPL", with: "x3pPL"), good.replacing("Upgrade: WebSocket\r\n", with: ""),
            good.replacing("keep-alive, Upgrade", with: "close"),
            good.replacing("\r\n\r\n", with: "\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"),
        ] {
            guard case .refused(101, _) = upgrade.read(Array(wrong.utf8)) else {
                Issue.record("accepted: \(wrong)")
                continue
            }
        }
        let endless = [UInt8](repeating: 65, count: 20_000)
        guard case .refused(0, _) = upgrade.read(Array("HTTP/1.1 101 ".utf8) + endless) else {
            Issue.record("an endless head")
            return
        }
    }
}
