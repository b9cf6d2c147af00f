import HTTPClient
import HTTPServer
import Runtime
import Testing

/// Tests of which requests are repeated after a redirect, to which server and with which headers.
@Suite struct RedirectTests {
    /// Redirects `/STATUS/rest` to `/rest`, and answers other requests with their content.
    private static func server() throws -> LocalServer {
        try LocalServer { request, exchange in
            let parts = request.targetText.dropFirst().split(separator: "/", maxSplits: 1)
            if let status = parts.first.flatMap({ Int($0) }) {
                let rest = "/" + (parts.count > 1 ? String(parts[1]) : "")
                exchange.respond(status: status, headers: ["Location": HTTPHeaders.Value(rest)])
                return
            }
            exchange.respond(status: 200, body: echo(request))
        }
    }

    private static func echo(_ request: HTTPRequest) -> [UInt8] {
        let found = [
            request.headerText("x-one"), request.headerText("authorization"), request.headerText("content-type"),
        ]
        let headers = found.map { $0 ?? "-" }.joined(separator: " ")
        return Array("\(request.method) \(headers) ".utf8) + request.body
    }

    private static func post(_ url: String, _ redirects: HTTPClientRequest.Redirects) -> HTTPClientRequest {
        var request = HTTPClientRequest.plain(url)
        request.method = "POST"
        request.headers = [("X-One", "1"), ("Content-Type", "application/json")]
        request.credentials = [("Authorization", "Bearer 7")]
        request.body = Array("{\"a\":\"\u{0}\"}".utf8)
        request.redirects = redirects
        return request
    }

    @Test(arguments: [
        (307, "POST 1 Bearer 7 application/json {\"a\":\"\u{0}\"}"),
        (308, "POST 1 Bearer 7 application/json {\"a\":\"\u{0}\"}"),
        (301, "GET 1 Bearer 7 - "), (302, "GET 1 Bearer 7 - "), (303, "GET 1 Bearer 7 - "),
    ]) func whatIsAskedAgain(_ status: Int, _ expected: String) throws {
        let server = try Self.server()
        let client = try HTTPClient()
        defer { client.stop() }
        for count in 1...3 {
            let path = String(repeating: "/\(status)", count: count)
            let response = try client.result(Self.post(server.url(path), .all))?.get()
            #expect(response?.body.text == expected)
        }
        #expect(client.failure(Self.post(server.url("/307/307/307/307"), .all)) == .tooManyRedirects)
    }

    @Test func headStaysHead() throws {
        let server = try Self.server()
        let client = try HTTPClient()
        defer { client.stop() }
        var request = HTTPClientRequest.plain(server.url("/302/303/307"))
        request.method = "HEAD"
        let response = try client.result(request)?.get()
        #expect(response?.status == 200 && response?.body.isEmpty == true)
    }

    /// Checks that only redirects that keep the request are followed: a delivery that became a GET would be lost
    /// silently.
    @Test func onlyTheSameRequestIsRepeated() throws {
        let server = try Self.server()
        let client = try HTTPClient()
        defer { client.stop() }
        for status in [300, 301, 302, 303, 304, 305] {
            let response = try client.result(Self.post(server.url("/\(status)/end"), .sameRequest))?.get()
            #expect(response?.status == status)
        }
        for path in ["/307/308/307", "/308"] {
            let response = try client.result(Self.post(server.url(path), .sameRequest))?.get()
            #expect(response?.body.text.hasPrefix("POST 1 Bearer 7 application/json {") == true)
        }
        // Followed by a redirect that is not followed.
        #expect(try client.result(Self.post(server.url("/307/302"), .sameRequest))?.get().status == 302)
        #expect(client.failure(Self.post(server.url("/307/307/307/308"), .sameRequest)) == .tooManyRedirects)
    }

    @Test func credentialsStayWhereTheyBelong() throws {
        let other = try Self.server()
        let target = other.url("/307/end")
        let first = try LocalServer { _, exchange in
            exchange.respond(status: 307, headers: ["Location": HTTPHeaders.Value(target)])
        }
        let client = try HTTPClient()
        defer { client.stop() }
        let response = try client.result(Self.post(first.url("/"), .sameRequest))?.get()
        // The header is not restored by a redirect of the other server to itself either.
        #expect(response?.body.text == "POST 1 - application/json {\"a\":\"\u{0}\"}")
    }

    @Test func aRedirectNowhereIsAResponse() throws {
        let server = try LocalServer { _, exchange in exchange.respond(status: 307) }
        let client = try HTTPClient()
        defer { client.stop() }
        #expect(try client.result(Self.post(server.url("/"), .sameRequest))?.get().status == 307)
    }
}

extension [UInt8] {
    fileprivate var text: String { String(decoding: self, as: UTF8.self) }
}
