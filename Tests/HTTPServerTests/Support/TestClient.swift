import COpenSSL
import Glibc
import Testing

/// An error of a test's own client.
struct ClientFailure: Error, CustomStringConvertible {
    var description: String
}

/// One response as the client received it.
struct ClientResponse: Equatable {
    var status: Int
    var headers: [String: String]
    var body: [UInt8]

    var text: String { String(decoding: body, as: UTF8.self) }
}

/// A blocking client that sends only the given bytes. Every wait ends after ten seconds with an error.
final class TestClient {
    private(set) var descriptor: Int32
    private var tls: TestTLS?
    /// Received bytes that were not processed yet.
    private var buffer: [UInt8] = []

    /// `receiveBuffer`: SO_RCVBUF, small for a slow client.
    init(port: UInt16, receiveBuffer: Int32? = nil) throws {
        descriptor = socket(AF_INET, 1, 0)
        guard descriptor >= 0 else { throw ClientFailure(description: "socket: errno \(errno)") }
        if var receiveBuffer {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, 4)
        }
        var limit = timeval(tv_sec: 10, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw ClientFailure(description: "connect: errno \(errno)") }
    }

    /// Connects over TLS, and completes the handshake.
    convenience init(port: UInt16, tls: TestTLS, receiveBuffer: Int32? = nil) throws {
        try self.init(port: port, receiveBuffer: receiveBuffer)
        try tls.connect(descriptor)
        self.tls = tls
    }

    deinit {
        close()
    }

    func close() {
        if descriptor >= 0 { _ = Glibc.close(descriptor) }
        descriptor = -1
    }

    /// Aborts the connection: the server gets a reset.
    func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        close()
    }

    /// Ends this side's input to the server; its output can still be read.
    func finishSending() {
        shutdown(descriptor, 1)
    }

    func send(_ text: String) throws { try send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { raw in
                tls?.send(UnsafeRawBufferPointer(rebasing: raw[sent...]))
                    ?? Glibc.send(descriptor, raw.baseAddress.map { $0 + sent }, bytes.count - sent, 0x4000)
            }
            guard count > 0 else { throw ClientFailure(description: "send: errno \(errno)") }
            sent += count
        }
    }

    /// Reads one more piece of input into the buffer; returns false at its end.
    private func receiveMore() throws -> Bool {
        var piece = [UInt8](repeating: 0, count: 65536)
        let count = piece.withUnsafeMutableBytes {
            tls?.receive($0) ?? recv(descriptor, $0.baseAddress, $0.count, 0)
        }
        if count == 0 { return false }
        guard count > 0 else { throw ClientFailure(description: "recv: errno \(errno)") }
        buffer.append(contentsOf: piece[..<count])
        return true
    }

    /// Reads the next `count` bytes.
    func receive(_ count: Int) throws -> [UInt8] {
        while buffer.count < count {
            guard try receiveMore() else { throw ClientFailure(description: "the input ended early") }
        }
        defer { buffer.removeFirst(count) }
        return Array(buffer[..<count])
    }

    /// Reads everything up to the end of the input.
    func receiveAll() throws -> [UInt8] {
        while try receiveMore() {}
        defer { buffer = [] }
        return buffer
    }

    /// Reads the status line and headers.
    func receiveHead() throws -> (status: Int, headers: [String: String]) {
        var searched = 0
        while true {
            if buffer.count >= 4 {
                for index in max(3, searched)..<buffer.count
                where buffer[index] == 10 && buffer[index - 2] == 10 && buffer[index - 1] == 13 {
                    let head = String(decoding: buffer[..<(index - 3)], as: UTF8.self)
                    buffer.removeFirst(index + 1)
                    return try Self.parse(head)
                }
                searched = buffer.count
            }
            guard try receiveMore() else {
                throw ClientFailure(description: "no response, the input ended behind \(buffer.count) bytes")
            }
        }
    }

    private static func parse(_ head: String) throws -> (status: Int, headers: [String: String]) {
        var lines = head.split(separator: "\r\n").map(String.init)
        guard let first = lines.first, first.hasPrefix("HTTP/1.1 "), let status = Int(first.dropFirst(9).prefix(3))
        else { throw ClientFailure(description: "not a status line: \(head)") }
        lines.removeFirst()
        var headers: [String: String] = [:]
        for line in lines {
            guard let colon = line.firstIndex(of: ":") else {
                throw ClientFailure(description: "not a header: \(line)")
            }
            let name = line[..<colon].lowercased()
            guard headers[name] == nil else { throw ClientFailure(description: "\(name) twice") }
            headers[name] = String(line[line.index(after: colon)...].drop { $0 == " " })
        }
        return (status, headers)
    }

    /// Reads a whole response, framed by Content-Length.
    func receiveResponse(isHead: Bool = false) throws -> ClientResponse {
        let (status, headers) = try receiveHead()
        guard !isHead, status >= 200, status != 204, status != 304 else {
            return ClientResponse(status: status, headers: headers, body: [])
        }
        guard let length = headers["content-length"].flatMap({ Int($0) }) else {
            throw ClientFailure(description: "a response without Content-Length")
        }
        return ClientResponse(status: status, headers: headers, body: try receive(length))
    }

    /// Waits for the server to close the connection. Returns whether no bytes were left to read.
    func isClosedByServer() -> Bool {
        do {
            return try receiveAll().isEmpty
        } catch {
            return errno == ECONNRESET
        }
    }

    func exchange(_ text: String) throws -> ClientResponse {
        try send(text)
        return try receiveResponse()
    }
}
