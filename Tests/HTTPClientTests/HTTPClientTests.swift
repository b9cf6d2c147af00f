import HTTPClient
import HTTPServer
import Runtime
import Testing

struct HTTPClientTests {
    @Test func `a request and its response, whole`() throws {
        let server = try LocalServer { request, exchange in
            let seen = "\(request.method) \(request.targetText) \(request.headerText("x-one") ?? "-") "
            exchange.respond(
                status: 418, headers: ["X-Answer": "  yes ", "Cache-Control": "max-age=5"],
                body: Array(seen.utf8) + request.body)
        }
        let client = try HTTPClient()
        defer { client.stop() }
        var request = HTTPClientRequest.plain(server.url("/a?b=c"))
        request.method = "POST"
        request.headers = [("X-One", "1")]
        request.body = Array("body\u{0}more".utf8)
        let response = try #require(try client.result(request)?.get())
        #expect(response.status == 418)
        #expect(response.header("x-answer") == "yes")
        #expect(response.header("cache-control") == "max-age=5")
        #expect(String(decoding: response.body, as: UTF8.self) == "POST /a?b=c 1 body\u{0}more")
    }

    @Test(arguments: ["GET", "HEAD", "PUT", "DELETE", "PATCH", "POST"])
    func `methods without a body`(method: String) throws {
        let server = try LocalServer { request, exchange in
            exchange.respond(status: 200, headers: ["X-Method": "\(request.method)"], body: Array("text".utf8))
        }
        let client = try HTTPClient()
        defer { client.stop() }
        var request = HTTPClientRequest.plain(server.url("/"))
        request.method = method
        let response = try #require(try client.result(request)?.get())
        #expect(response.header("x-method")?.uppercased() == method)
        #expect(response.body.count == (method == "HEAD" ? 0 : 4))
    }

    @Test func `many at once, on few connections`() throws {
        let server = try LocalServer { request, exchange in exchange.respond(status: 200, body: Array(request.target)) }
        var settings = HTTPClient.Settings()
        settings.maxConnections = 4
        let client = try HTTPClient(settings)
        defer { client.stop() }
        let bodies = Condition<Set<String>>([])
        for index in 0..<500 {
            client.send(.plain(server.url("/\(index)"))) { result in
                bodies.broadcast { bodies in
                    if case .success(let response) = result {
                        bodies.insert(String(decoding: response.body, as: UTF8.self))
                    }
                }
            }
        }
        #expect(bodies.wait(milliseconds: 60_000) { $0.count == 500 ? true : nil } == true)
    }

    @Test func `a server that does not answer`() throws {
        let server = try LocalServer { _, _ in }
        let client = try HTTPClient()
        defer { client.stop() }
        var request = HTTPClientRequest.plain(server.url("/"))
        request.timeoutMilliseconds = 50
        #expect(client.failure(request) == .timedOut)
    }

    @Test func `a server that is not there`() throws {
        let server = try LocalServer { _, exchange in exchange.respond(status: 200) }
        let url = server.url("/")
        server.stop()
        let client = try HTTPClient()
        defer { client.stop() }
        guard case .unreachable = client.failure(.plain(url)) else {
            Issue.record("it was reached")
            return
        }
    }

    @Test func `a response that is too large, with its length and without`() throws {
        let server = try LocalServer { request, exchange in
            let body = [UInt8](repeating: 0x61, count: 5_000)
            if request.targetText == "/length" {
                exchange.respond(status: 200, body: body)
                return
            }
            exchange.startStream(headers: [:])
            exchange.send(SharedBytes(body))
            exchange.close()
        }
        let client = try HTTPClient()
        defer { client.stop() }
        for path in ["/length", "/stream"] {
            var request = HTTPClientRequest.plain(server.url(path))
            request.maxResponseBytes = 4_999
            #expect(client.failure(request) == .responseTooLarge)
            request.maxResponseBytes = 5_000
            #expect(try client.result(request)?.get().body.count == 5_000)
        }
    }

    @Test func `redirects are followed, and bounded`() throws {
        let server = try LocalServer { request, exchange in
            let step = Int(request.targetText.dropFirst()) ?? 0
            if step == 0 {
                exchange.respond(status: 200, headers: ["X-Last": "1"], body: Array("end".utf8))
                return
            }
            exchange.respond(
                status: 302, headers: ["Location": "/\(step - 1)", "X-First": "1"], body: Array("no".utf8))
        }
        let client = try HTTPClient()
        defer { client.stop() }
        let response = try #require(try client.result(.plain(server.url("/3")))?.get())
        #expect(String(decoding: response.body, as: UTF8.self) == "end")
        #expect(response.header("x-first") == nil)
        #expect(response.header("x-last") == "1")
        #expect(client.failure(.plain(server.url("/4"))) == .tooManyRedirects)
        var request = HTTPClientRequest.plain(server.url("/1"))
        request.maxRedirects = 0
        #expect(try client.result(request)?.get().status == 302)
    }

    @Test func `a redirect to a file or another protocol is not followed`() throws {
        let server = try LocalServer { request, exchange in
            let target = request.targetText == "/file" ? "file:///etc/passwd" : "gopher://127.0.0.1/"
            exchange.respond(status: 302, headers: ["Location": HTTPHeaders.Value(target)])
        }
        let client = try HTTPClient()
        defer { client.stop() }
        for path in ["/file", "/gopher"] {
            guard case .badRequest = client.failure(.plain(server.url(path))) else {
                Issue.record("it was followed")
                return
            }
        }
    }

    @Test func `what is no address, and what is not safe enough`() throws {
        let server = try LocalServer { _, exchange in exchange.respond(status: 200) }
        let client = try HTTPClient()
        defer { client.stop() }
        for url in ["", "http://", "file:///etc/passwd", "nothing at all"] {
            #expect(client.failure(.plain(url)) != nil)
        }
        guard case .badRequest = client.failure(HTTPClientRequest(server.url("/"))) else {
            Issue.record("plain HTTP was allowed")
            return
        }
        var request = HTTPClientRequest.plain(server.url("/"))
        request.headers = [("X-One", "1\r\nX-Two: 2")]
        guard case .badRequest = client.failure(request) else {
            Issue.record("a header with a line break was sent")
            return
        }
    }

    @Test func `stopping fails requests in flight, and everything after`() throws {
        let arrived = Condition(false)
        let server = try LocalServer { _, _ in arrived.broadcast { $0 = true } }
        let client = try HTTPClient()
        let outcome = Condition<Result<ClientResponse, HTTPClientError>?>(nil)
        client.send(.plain(server.url("/"))) { result in outcome.broadcast { $0 = result } }
        #expect(arrived.wait(milliseconds: 30_000) { $0 ? true : nil } == true)
        client.stop()
        client.stop()
        guard case .failure(.refused) = outcome.wait(milliseconds: 30_000, until: { $0 }),
            case .refused = client.failure(.plain(server.url("/")))
        else {
            Issue.record("it was not refused")
            return
        }
    }

    @Test func `more requests than allowed are refused`() throws {
        let arrived = Condition(0)
        let server = try LocalServer { _, _ in arrived.broadcast { $0 += 1 } }
        var settings = HTTPClient.Settings()
        settings.maxConnections = 1
        settings.maxWaiting = 1
        let client = try HTTPClient(settings)
        defer { client.stop() }
        client.send(.plain(server.url("/"))) { _ in }
        #expect(arrived.wait(milliseconds: 30_000) { $0 == 1 ? true : nil } == true)
        client.send(.plain(server.url("/"))) { _ in }
        guard case .notSent = client.failure(.plain(server.url("/"))) else {
            Issue.record("it was not refused")
            return
        }
    }
}
