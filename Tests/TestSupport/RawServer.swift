import Glibc
import Runtime

/// A server that sends exact bytes: the next answer to each connection, after the end of the request's head. Then it
/// closes or resets the connection, or stays silent.
public final class RawServer: Sendable {
    public enum Ending: Sendable {
        case closes
        case resets
        case staysSilent
    }

    public let port: UInt16
    private let listener: Int32
    private let seen = Condition<[String]>([])
    private let thread: Thread

    private struct Failure: Error {}

    public init(_ answers: [String], _ ending: Ending = .closes) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        self.listener = listener
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { socketAddress -> Int32 in
                guard bind(listener, socketAddress, length) == 0, listen(listener, 16) == 0 else { return -1 }
                return getsockname(listener, socketAddress, &length)
            }
        }
        guard result == 0 else { throw Failure() }
        port = UInt16(bigEndian: address.sin_port)
        let seen = self.seen
        thread = Thread(name: "raw-server") {
            var open: [Int32] = []
            for answer in answers {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { break }
                open.append(client)
                let request = Self.head(client)
                seen.broadcast { $0.append(request) }
                let bytes = Array(answer.utf8)
                _ = bytes.withUnsafeBytes { send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
                switch ending {
                case .closes: shutdown(client, Int32(SHUT_WR))
                case .resets:
                    // A socket with a linger time of zero is reset when it closes.
                    var linger = linger(l_onoff: 1, l_linger: 0)
                    setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
                    close(open.removeLast())
                case .staysSilent: break
                }
            }
            // Silent until the server stops.
            if ending == .staysSilent { open.append(accept(listener, nil, nil)) }
            for client in open where client >= 0 { close(client) }
        }
    }

    /// Reads a client's data up to the empty line, or once for the start of TLS, which has none.
    private static func head(_ client: Int32) -> String {
        var text = ""
        var piece = [UInt8](repeating: 0, count: 4_096)
        while !text.contains("\r\n\r\n"), case let count = recv(client, &piece, piece.count, 0), count > 0 {
            text += String(decoding: piece[..<count], as: UTF8.self)
            if piece[0] == 0x16 { break }
        }
        return text
    }

    /// The heads of the requests that arrived.
    public var requests: [String] { seen.withLock { $0 } }

    public func url(_ path: String = "/") -> String { "http://127.0.0.1:\(port)\(path)" }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        thread.join()
        close(listener)
    }
}
