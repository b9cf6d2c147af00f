import Glibc
import HTTPClient
import HTTPServer
import Runtime
import TLS

/// A server on a free loopback port whose handlers call a closure.
final class LocalServer: Sendable {
    typealias Handle = @Sendable (HTTPRequest, HTTPExchange) -> Void

    private let server: HTTPServer

    private final class Handler: HTTPLoopHandler {
        let handle: Handle
        init(_ handle: @escaping Handle) { self.handle = handle }
        func requestReceived(_ request: HTTPRequest, _ exchange: HTTPExchange) { handle(request, exchange) }
        func loopWillDrain() {}
        func loopWillStop() {}
    }

    init(_ handle: @escaping Handle) throws {
        server = try HTTPServer(settings: HTTPServerSettings()) { _ in Handler(handle) }
        try server.start()
    }

    var port: UInt16 { server.boundAddresses.first?.port ?? 0 }

    func url(_ path: String) -> String { "http://127.0.0.1:\(port)\(path)" }

    /// The number of open connections.
    var connections: Int { server.statistics.activeConnections }

    func stop() { server.stop(deadlineMilliseconds: 0) }

    deinit { stop() }
}

extension HTTPClient {
    /// Sends a request and waits for its result.
    func result(_ request: HTTPClientRequest) -> Result<ClientResponse, HTTPClientError>? {
        let outcome = Condition<Result<ClientResponse, HTTPClientError>?>(nil)
        send(request) { result in outcome.broadcast { $0 = result } }
        return outcome.wait(milliseconds: 60_000) { $0 }
    }

    func failure(_ request: HTTPClientRequest) -> HTTPClientError? {
        if case .failure(let error) = result(request) { error } else { nil }
    }
}

extension HTTPClientRequest {
    /// Returns a request to a test's server, without TLS.
    static func plain(_ url: String) -> HTTPClientRequest {
        var request = HTTPClientRequest(url)
        request.allowsPlainHTTP = true
        return request
    }
}

/// A server over TLS, for `localhost`, whose handlers call a closure.
final class SecureServer: Sendable {
    private let server: HTTPServer

    private final class Handler: HTTPLoopHandler {
        let handle: LocalServer.Handle
        init(_ handle: @escaping LocalServer.Handle) { self.handle = handle }
        func requestReceived(_ request: HTTPRequest, _ exchange: HTTPExchange) { handle(request, exchange) }
        func loopWillDrain() {}
        func loopWillStop() {}
    }

    init(_ identity: TLSIdentity, _ handle: @escaping LocalServer.Handle) throws {
        var settings = HTTPServerSettings()
        settings.tls = identity
        settings.addresses = []
        settings.tlsAddresses = [ListenAddress(host: "127.0.0.1", port: 0)]
        server = try HTTPServer(settings: settings) { _ in Handler(handle) }
        try server.start()
    }

    var port: UInt16 { server.boundTLSAddresses.first?.port ?? 0 }

    func url(_ path: String) -> String { "https://localhost:\(port)\(path)" }

    deinit { server.stop(deadlineMilliseconds: 0) }
}

/// Small files of a test.
enum TestFiles {
    struct Failure: Error {}

    /// Creates a folder with files of these names and texts.
    static func write(_ folder: String, _ files: [String: String]) throws {
        guard mkdir(folder, 0o700) == 0 else { throw Failure() }
        for (name, text) in files {
            let descriptor = open(folder + "/" + name, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { throw Failure() }
            defer { close(descriptor) }
            guard Glibc.write(descriptor, text, text.utf8.count) == text.utf8.count else { throw Failure() }
        }
    }
}
