import Glibc
import Runtime
import TLS

/// A server on a free loopback port that runs a script on each connection, in the order of connections.
final class ScriptedServer: Sendable {
    /// One connection, for the thread of its script. Ends with the server.
    final class Connection {
        let number: Int
        private let stream: SocketStream
        private let isStopped: @Sendable () -> Bool

        fileprivate init(_ number: Int, _ stream: SocketStream, _ isStopped: @escaping @Sendable () -> Bool) {
            self.number = number
            self.stream = stream
            self.isStopped = isStopped
        }

        /// Reads a request, with its body if the length is declared. Returns nil at the end of the connection.
        ///
        /// - Returns: The request up to the empty line.
        func request(withBody: Bool = true) -> String? {
            var bytes: [UInt8] = []
            let end = Array("\r\n\r\n".utf8)
            var head: Range<Int>?
            while head == nil {
                guard let more = receive() else { return nil }
                bytes += more
                head = bytes.firstRange(of: end)
            }
            guard let head else { return nil }
            let text = String(decoding: bytes[..<head.upperBound], as: UTF8.self)
            let length = withBody ? Self.length(text) : 0
            var count = bytes.count - head.upperBound
            while count < length {
                guard let more = receive() else { return nil }
                count += more.count
            }
            return text
        }

        private static func length(_ head: String) -> Int {
            for line in head.split(separator: "\r\n") where line.lowercased().hasPrefix("content-length:") {
                return Int(line.dropFirst(15).drop { $0 == " " }) ?? 0
            }
            return 0
        }

        private func receive() -> [UInt8]? {
            var piece = [UInt8](repeating: 0, count: 65_536)
            while !isStopped() {
                switch piece.withUnsafeMutableBytes({ stream.receive(into: $0) }) {
                case .moved(let count): return Array(piece[..<count])
                case .wouldBlock: wait()
                case .finished, .failed: return nil
                }
            }
            return nil
        }

        func send(_ text: String) {
            var bytes = Array(text.utf8)[...]
            while !bytes.isEmpty, !isStopped() {
                switch bytes.withUnsafeBytes({ stream.send($0) }) {
                case .moved(let count): bytes = bytes.dropFirst(count)
                case .wouldBlock: wait()
                case .finished, .failed: return
                }
            }
        }

        fileprivate func shakeHands() -> Bool {
            while !isStopped() {
                switch stream.shakeHands() {
                case .done: return true
                case .needsInput, .needsOutput: wait()
                case .plainHTTP, .failed: return false
                }
            }
            return false
        }

        private func wait() {
            var one = pollfd(fd: stream.descriptor, events: Int16(POLLIN), revents: 0)
            poll(&one, 1, 5)
        }

        /// Signals the end of output.
        func end() { _ = stream.finishSending() }

        fileprivate func close() { stream.close() }
    }

    typealias Script = @Sendable (Connection) -> Void

    private struct State: Sendable {
        var connections = 0
        var isStopped = false
    }

    private struct Failure: Error {}

    let port: UInt16
    private let listener: Int32
    private let state = MutexBox(State())
    private let thread: Thread

    /// - Parameter identity: The identity for TLS, or nil for plain TCP.
    init(_ identity: TLSIdentity? = nil, _ script: @escaping Script) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        self.listener = listener
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { socketAddress -> Int32 in
                guard bind(listener, socketAddress, length) == 0, listen(listener, 64) == 0 else { return -1 }
                return getsockname(listener, socketAddress, &length)
            }
        }
        guard result == 0 else { throw Failure() }
        port = UInt16(bigEndian: address.sin_port)
        let state = self.state
        thread = Thread(name: "scripted-server") {
            var threads: [Thread] = []
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { break }
                _ = fcntl(client, F_SETFD, FD_CLOEXEC)
                _ = fcntl(client, F_SETFL, O_NONBLOCK)
                let number = state.withLock { state in
                    state.connections += 1
                    return state.connections - 1
                }
                threads.append(
                    Thread(name: "script") {
                        // TLS writes to the socket without a flag against this signal.
                        var signals = sigset_t()
                        sigemptyset(&signals)
                        sigaddset(&signals, SIGPIPE)
                        pthread_sigmask(SIG_BLOCK, &signals, nil)
                        let tls = identity.flatMap { $0.context.makeSession(descriptor: client) }
                        let connection = Connection(number, SocketStream(descriptor: client, tls: tls)) {
                            state.withLock { $0.isStopped }
                        }
                        if connection.shakeHands() { script(connection) }
                        connection.close()
                    })
            }
            for thread in threads { thread.join() }
        }
    }

    var connections: Int { state.withLock { $0.connections } }

    func url(_ path: String = "/") -> String { "http://127.0.0.1:\(port)\(path)" }

    deinit {
        state.withLock { $0.isStopped = true }
        shutdown(listener, Int32(SHUT_RDWR))
        thread.join()
        close(listener)
    }
}
