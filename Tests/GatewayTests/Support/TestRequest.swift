import Glibc

@testable import HTTPServer

/// Requests without a connection.
enum TestRequest {
    struct Incomplete: Error {}

    /// - Parameters:
    ///   - headers: Header lines in the order sent. `Host: localhost` comes first unless it is among them.
    ///   - bytes: The body, if it is not text.
    ///   - address: The apparent address of the client.
    static func make(
        _ method: String = "GET", _ target: String = "/", _ headers: [(String, String)] = [], body: String = "",
        bytes: [UInt8]? = nil, from address: String = "127.0.0.1", isSecure: Bool = false, version: String = "1.1"
    ) throws -> HTTPRequest {
        let body = bytes ?? Array(body.utf8)
        var text = "\(method) \(target) HTTP/\(version)\r\n"
        let hasHost = headers.contains { $0.0.lowercased() == "host" }
        for (name, value) in (hasHost || version == "1.0" ? [] : [("Host", "localhost")]) + headers {
            text += "\(name): \(value)\r\n"
        }
        if !body.isEmpty { text += "Content-Length: \(body.count)\r\n" }
        // The parser refers to a table that its pool owns.
        let pool = ParserPool(limits: RequestParser.Limits(HTTPServerSettings()))
        defer { withExtendedLifetime(pool) {} }
        let parser = pool.take()
        let outcome = (Array("\(text)\r\n".utf8) + body).withUnsafeBytes { parser.feed($0).1 }
        guard outcome == .complete, let target = parser.target else { throw Incomplete() }
        return HTTPRequest(
            parser, method: HTTPMethod(parserCode: parser.facts.method), target: target, peer: peer(address),
            isSecure: isSecure)
    }

    /// Returns a peer at an IPv4 address.
    static func peer(_ address: String) -> PeerAddress {
        let storage = UnsafeMutablePointer<sockaddr_storage>.allocate(capacity: 1)
        defer { storage.deallocate() }
        memset(storage, 0, MemoryLayout<sockaddr_storage>.size)
        storage.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { peer in
            peer.pointee.sin_family = sa_family_t(AF_INET)
            peer.pointee.sin_port = UInt16(40_000).bigEndian
            inet_pton(AF_INET, address, &peer.pointee.sin_addr)
        }
        return PeerAddress(storage.pointee)
    }
}
