import ClientCore
import Crypto

/// The request that upgrades an HTTP connection to WebSocket, and its answer (RFC 6455 4.1). Pure.
struct Upgrade {
    /// Sixteen random bytes as base64.
    let key: String

    enum Answer: Equatable {
        /// More bytes of the answer have to arrive.
        case incomplete
        /// The answer has `byteCount` bytes; the bytes after it are frames.
        case accepted(byteCount: Int)
        /// `status` is 0 if the answer is not HTTP.
        case refused(status: Int, reason: String)
    }

    static let maxHeadBytes = 16 * 1024

    init(nonce: [UInt8]) { key = String(decoding: Base64.encode(nonce), as: UTF8.self) }

    /// Returns the request's bytes.
    ///
    /// - Parameter headers: additional headers; names and values must not contain line ends.
    func request(_ address: RealtimeAddress, headers: [(name: String, value: String)]) -> [UInt8] {
        var text = "GET \(address.target) HTTP/1.1\r\nHost: \(address.hostHeader)\r\n"
        text +=
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: \(key)\r\n"
        for header in headers { text += "\(header.name): \(header.value)\r\n" }
        return Array((text + "\r\n").utf8)
    }

    /// Parses the received part of the answer.
    func read(_ bytes: [UInt8]) -> Answer {
        guard let end = Self.endOfHead(bytes) else {
            if bytes.count >= 5, !bytes.starts(with: "HTTP/".utf8) {
                return .refused(status: 0, reason: "the answer is not HTTP")
            }
            return bytes.count <= Self.maxHeadBytes
                ? .incomplete : .refused(status: 0, reason: "the answer's head is too long")
        }
        let lines = String(decoding: bytes[..<end], as: UTF8.self).split(separator: "\r\n")
        let words = (lines.first ?? "").split(separator: " ", maxSplits: 2)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), let status = Int(words[1]) else {
            return .refused(status: 0, reason: "the answer is not HTTP")
        }
        guard status == 101 else {
            return .refused(status: status, reason: Self.bounded(bytes[end...]))
        }
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { continue }
            let name = line[..<colon].lowercased()
            fields[name] = line[line.index(after: colon)...].trimmed
        }
        guard fields["upgrade"]?.lowercased() == "websocket",
            fields["connection"]?.lowercased().split(separator: ",").contains(where: { $0.trimmed == "upgrade" })
                == true,
            fields["sec-websocket-accept"] == accept
        else { return .refused(status: 101, reason: "the answer does not complete the upgrade of this request") }
        guard fields["sec-websocket-extensions"] == nil, fields["sec-websocket-protocol"] == nil else {
            return .refused(
                status: 101, reason: "the server chose an extension or protocol that the client did not offer")
        }
        return .accepted(byteCount: end)
    }

    /// The server's expected answer to the key.
    var accept: String {
        let digest = Digest.sha1(Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))
        return String(decoding: Base64.encode(digest), as: UTF8.self)
    }

    private static func endOfHead(_ bytes: [UInt8]) -> Int? {
        guard bytes.count >= 4 else { return nil }
        for index in 3..<bytes.count
        where bytes[index] == 10 && bytes[index - 1] == 13 && bytes[index - 2] == 10 && bytes[index - 3] == 13 {
            return index + 1
        }
        return nil
    }

    /// Returns the beginning of an error's body, on one line.
    private static func bounded(_ body: ArraySlice<UInt8>) -> String {
        let text = String(decoding: body.prefix(200), as: UTF8.self)
        return String(text.unicodeScalars.map { $0.value < 32 ? " " : Character($0) })
    }
}

extension Substring {
    fileprivate var trimmed: String {
        let isBlank = { (character: Character) in character == " " || character == "\t" }
        var rest = drop(while: isBlank)
        while let last = rest.last, isBlank(last) { rest.removeLast() }
        return String(rest)
    }
}
