import Glibc
import HTTPServer
import Testing

/// Checks that loop threads block signals for the main thread, but not those that report a thread's own error.
@Suite struct SignalTests {
    @Test func aLoopBlocksWhatOthersSendOnly() throws {
        let server = try TestServer { _, exchange in
            var mask = sigset_t()
            pthread_sigmask(SIG_BLOCK, nil, &mask)
            let blocked = [SIGTERM, SIGINT, SIGHUP, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV]
                .map { "\(sigismember(&mask, $0))" }.joined()
            exchange.respond(status: 200, headers: [:], body: Array(blocked.utf8))
        }
        let client = try TestClient(port: server.port)
        #expect(try client.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n").text == "111000000")
    }
}
