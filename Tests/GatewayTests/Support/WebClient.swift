import Glibc

/// A blocking HTTP client on one connection to a local server. Every wait ends after 20 seconds.
final class WebClient {
    struct Failure: Error { let what: String }

    struct Response {
        let status: Int
        let headers: [String: String]
        let body: [UInt8]

        var text: String { String(decoding: body, as: UTF8.self) }
    }

    private let descriptor: Int32
    private var buffer: [UInt8] = []

    /// - Parameter receiveBuffer: Size of the receive buffer. A small one simulates a slow client.
    init(_ port: UInt16, receiveBuffer: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        if var receiveBuffer { setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, 4) }
        var limit = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw Failure(what: "connect: \(errno)") }
    }

    /// Creates a client on an open connection, which is closed with the client.
    init(descriptor: Int32) {
        self.descriptor = descriptor
        var limit = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    /// Makes closing reset the connection, so that the server does not assume that the client still waits for an
    /// answer.
    func resetsWhenClosed() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    func request(
        _ method: String, _ target: String, _ headers: [String: String] = [:], body: String? = nil
    ) throws -> Response {
        try send(method, target, headers, body: body)
        let (status, headers) = try head()
        let length = headers["content-length"].flatMap { Int($0) } ?? 0
        let hasBody = method != "HEAD" && status != 204 && status != 304
        return Response(status: status, headers: headers, body: hasBody ? try take(length) : [])
    }

    func send(_ method: String, _ target: String, _ headers: [String: String] = [:], body: String? = nil) throws {
        var text = "\(method) \(target) HTTP/1.1\r\nHost: localhost\r\n"
        for (name, value) in headers { text += "\(name): \(value)\r\n" }
        if let body { text += "Content-Length: \(body.utf8.count)\r\n\r\n\(body)" } else { text += "\r\n" }
        try send(bytes: Array(text.utf8))
    }

    func send(bytes: [UInt8]) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { throw Failure(what: "send: \(errno)") }
            rest = rest.dropFirst(count)
        }
    }

    func head() throws -> (status: Int, headers: [String: String]) {
        var lines = try text(through: "\r\n\r\n").split(separator: "\r\n").map(String.init)
        guard let status = lines.first?.split(separator: " ").dropFirst().first.flatMap({ Int($0) }) else {
            throw Failure(what: "no status line")
        }
        lines.removeFirst()
        var headers: [String: String] = [:]
        for line in lines {
            let parts = line.split(separator: ":", maxSplits: 1)
            headers[parts[0].lowercased()] = parts.count > 1 ? String(parts[1].drop { $0 == " " }) : ""
        }
        return (status, headers)
    }

    /// Whether the server has closed the connection. Discards all data that it sent before.
    func isAtEnd() -> Bool {
        var piece = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(descriptor, &piece, piece.count, 0)
            guard count > 0 else { return count == 0 }
        }
    }

    /// Shuts down the client's side of the connection, or both sides.
    func shutDown(_ how: Int32 = Int32(SHUT_RDWR)) { shutdown(descriptor, how) }

    /// Reads the next `count` bytes.
    func read(bytes count: Int) throws -> [UInt8] { try take(count) }

    /// Reads the next `count` bytes as text.
    func read(count: Int) throws -> String { String(decoding: try take(count), as: UTF8.self) }

    /// Reads up to and including `end`.
    func read(through end: String) throws -> String { try text(through: end) }

    /// Reads one event of a stream: its name, id and data.
    func event() throws -> (name: String, id: Int64?, data: String) {
        var (name, data): (String, String) = ("", "")
        var id: Int64?
        for line in try text(through: "\n\n").split(separator: "\n") {
            if line.hasPrefix("event: ") { name = String(line.dropFirst(7)) }
            if line.hasPrefix("id: ") { id = Int64(line.dropFirst(4).prefix { $0 != "-" }) }
            if line.hasPrefix("data: ") { data = String(line.dropFirst(6)) }
        }
        return (name, id, data)
    }

    private func text(through end: String) throws -> String {
        let sign = Array(end.utf8)
        var start = 0
        while true {
            if buffer.count >= sign.count {
                for index in start...(buffer.count - sign.count) where buffer[index] == sign[0] {
                    guard buffer[index..<(index + sign.count)].elementsEqual(sign) else { continue }
                    return String(decoding: try take(index + sign.count), as: UTF8.self)
                }
                start = buffer.count - sign.count + 1
            }
            try receive()
        }
    }

    private func take(_ count: Int) throws -> [UInt8] {
        while buffer.count < count { try receive() }
        defer { buffer.removeFirst(count) }
        return Array(buffer[..<count])
    }

    private func receive() throws {
        var piece = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &piece, piece.count, 0)
        guard count > 0 else { throw Failure(what: count == 0 ? "the server closed the connection" : "recv: \(errno)") }
        buffer += piece[..<count]
    }
}
