import Crypto
import HTTPClient
import HTTPServer
import Runtime
import TLS
import TestSupport
import Testing

/// Checks that all data from a server becomes a response or an error, without misinterpretation.
@Suite struct ResponseTests {
    private static func result(_ answer: String, _ change: (inout HTTPClientRequest) -> Void = { _ in }) throws
        -> Result<
            ClientResponse, HTTPClientError
        >
    {
        let server = try RawServer([answer])
        let client = try HTTPClient()
        defer { client.stop() }
        var request = HTTPClientRequest.plain(server.url())
        change(&request)
        return try #require(client.result(request))
    }

    @Test func headersInOrder() throws {
        let response = try Self.result(
            "HTTP/1.1 200 OK\r\nB: 2\r\na:1\r\nX-Blank:   two words \t\r\nX-Empty:\r\nX-Colon: a:b\r\nB: 3\r\nContent-Length: 2\r\n\r\nok"
        ).get()
        #expect(
            response.headers.map { "\($0.name)=\($0.value)" } == [
                "b=2", "a=1", "x-blank=two words", "x-empty=", "x-colon=a:b", "b=3", "content-length=2",
            ])
        #expect(response.header("b") == "2")
        #expect(response.header("B") == nil)
        #expect(response.header("none") == nil)
        #expect(response.body == Array("ok".utf8))
    }

    @Test(arguments: [
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, ""), ("HTTP/1.0 200\r\n\r\nuntil the end", 200, "until the end"),
        ("HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\noops", 500, "oops"),
        ("HTTP/1.1 299 \r\nContent-Length: 0\r\n\r\n", 299, ""),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n", 200, "abcde"),
        // Interim responses are not part of the final response.
        ("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ny", 200, "y"),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 404, ""),
    ]) func bodies(_ answer: String, _ status: Int, _ body: String) throws {
        let response = try Self.result(answer).get()
        #expect(response.status == status)
        #expect(String(decoding: response.body, as: UTF8.self) == body)
        #expect(response.header("link") == nil)
    }

    @Test(arguments: [
        "", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
    ]) func brokenAnswers(_ answer: String) throws {
        guard case .failure(let error) = try Self.result(answer) else {
            Issue.record("a response was made of \(answer)")
            return
        }
        guard case .failed = error else {
            Issue.record("\(error)")
            return
        }
    }

    /// Checks that a response that ends at any byte before its end is an error.
    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nX-Colon: a:b\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r",
    ]) func responsesThatEndTooEarly(_ answer: String) throws {
        for count in 0..<answer.utf8.count {
            let part = String(decoding: answer.utf8.prefix(count), as: UTF8.self)
            guard case .failure(.failed) = try Self.result(part) else {
                Issue.record("a response was made of \(part.debugDescription)")
                return
            }
        }
        #expect(throws: Never.self) { try Self.result(answer).get() }
    }

    @Test func tooManyHeaders() throws {
        let many = (0..<201).map { "X-\($0): 1\r\n" }.joined()
        #expect(throws: HTTPClientError.responseTooLarge) { try Self.result("HTTP/1.1 200 OK\r\n\(many)\r\n").get() }
        let few = (0..<199).map { "X-\($0): 1\r\n" }.joined()
        #expect(try Self.result("HTTP/1.1 200 OK\r\n\(few)Content-Length: 0\r\n\r\n").get().headers.count == 200)
    }

    /// Checks that the limit on the body applies whether and however its length is declared.
    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n12345678901", "HTTP/1.0 200 OK\r\n\r\n12345678901",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n123456\r\n5\r\n78901\r\n0\r\n\r\n",
    ]) func theBoundIsExact(_ answer: String) throws {
        #expect(try Self.result(answer) { $0.maxResponseBytes = 11 }.get().body.count == 11)
        #expect(throws: HTTPClientError.responseTooLarge) { try Self.result(answer) { $0.maxResponseBytes = 10 }.get() }
    }

    @Test func aServerThatStopsInTheMiddle() throws {
        let server = try RawServer(["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"], .staysSilent)
        let client = try HTTPClient()
        defer { client.stop() }
        var request = HTTPClientRequest.plain(server.url())
        request.timeoutMilliseconds = 100
        #expect(withExtendedLifetime(server) { client.failure(request) } == .timedOut)
    }

    @Test func whatIsSent() throws {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        let server = try RawServer([answer, answer])
        var settings = HTTPClient.Settings()
        settings.userAgent = "agent/1"
        let client = try HTTPClient(settings)
        defer { client.stop() }
        var request = HTTPClientRequest.plain(server.url("/a%20b?c=d#fragment"))
        request.headers = [("X-One", "1"), ("X-Empty", ""), ("X-Tab", "a\tb")]
        _ = try client.result(request)?.get()
        request.method = "PUT"
        request.headers = []
        _ = try client.result(request)?.get()
        let lines = server.requests[0].components("\r\n")
        #expect(lines.first == "GET /a%20b?c=d HTTP/1.1")
        for line in ["Host: 127.0.0.1:\(server.port)", "User-Agent: agent/1", "X-One: 1", "X-Empty:", "X-Tab: a\tb"] {
            #expect(lines.contains(line), "\(line)")
        }
        // A PUT without a body declares a length of zero.
        #expect(server.requests[1].components("\r\n").contains("Content-Length: 0"))
    }

    @Test(arguments: [
        ("", "x"), ("X-A", "a\nb"), ("X-A", "a\rb"), ("X-A\r\nX-B", "a"), ("X-A", "a\u{0}b"), ("X\u{1}", "a"),
    ])
    func headersThatCouldAddLines(_ name: String, _ value: String) throws {
        let server = try RawServer([])
        let client = try HTTPClient()
        defer { client.stop() }
        var request = HTTPClientRequest.plain(server.url())
        request.headers = [(name, value)]
        #expect(client.failure(request) == .badRequest("a header contains a line break"))
        #expect(server.requests.isEmpty)
    }

    /// Checks that a redirect from a secure address to an insecure one is not followed.
    @Test func redirectsStayAsSafeAsTheyBegan() throws {
        let folder = TemporaryFolder.path("http-client")
        defer { TemporaryFolder.remove(folder) }
        let identity = try Self.identity(folder)
        let plain = try LocalServer { _, exchange in exchange.respond(status: 200) }
        let target = plain.url("/")
        let secure = try SecureServer(identity) { _, exchange in
            exchange.respond(status: 302, headers: ["Location": target])
        }
        let client = try HTTPClient(Self.trusting(folder))
        defer { client.stop() }
        guard case .badRequest = client.failure(HTTPClientRequest(secure.url("/"))) else {
            Issue.record("it was followed")
            return
        }
    }

    // MARK: TLS

    private static func identity(_ folder: String) throws -> TLSIdentity {
        try TestFiles.write(
            folder,
            [
                "key.pem": TestCertificates.rsaKey, "certificate.pem": TestCertificates.rsaCertificate,
                "other.pem": TestCertificates.otherCertificate,
            ])
        return try TLSIdentity(certificateFile: folder + "/certificate.pem", keyFile: folder + "/key.pem")
    }

    private static func trusting(_ folder: String, _ name: String = "certificate.pem") -> HTTPClient.Settings {
        var settings = HTTPClient.Settings()
        settings.certificateAuthoritiesFile = folder + "/" + name
        return settings
    }

    @Test func certificatesAreChecked() throws {
        let folder = TemporaryFolder.path("http-client")
        defer { TemporaryFolder.remove(folder) }
        let server = try SecureServer(Self.identity(folder)) { _, exchange in exchange.respond(status: 200, body: [1]) }
        let trusting = try HTTPClient(Self.trusting(folder))
        defer { trusting.stop() }
        #expect(try trusting.result(HTTPClientRequest(server.url("/")))?.get().body == [1])
        // A name that differs from the certificate's, another authority, and the system's authorities.
        for (client, url) in [
            (trusting, "https://127.0.0.1:\(server.port)/"),
            (try HTTPClient(Self.trusting(folder, "other.pem")), server.url("/")),
            (try HTTPClient(), server.url("/")), (try HTTPClient(Self.trusting(folder, "none.pem")), server.url("/")),
        ] {
            guard case .insecure = client.failure(HTTPClientRequest(url)) else {
                Issue.record("\(url) was trusted: \(String(describing: client.failure(HTTPClientRequest(url))))")
                continue
            }
            client.stop()
        }
    }

    /// Checks that a pinned public key alone decides, regardless of the certificate's name and authority, and that
    /// nothing is sent to a server with another key.
    @Test func aPublicKeyMayBePinned() throws {
        let folder = TemporaryFolder.path("http-client")
        defer { TemporaryFolder.remove(folder) }
        let identity = try Self.identity(folder)
        let requests = MutexBox(0)
        let server = try SecureServer(identity) { _, exchange in
            requests.withLock { $0 += 1 }
            exchange.respond(status: 200, body: [1])
        }
        let client = try HTTPClient()
        defer { client.stop() }
        let url = "https://127.0.0.1:\(server.port)/"
        var request = HTTPClientRequest(url)
        request.allowsPlainHTTP = true
        request.pinnedPublicKey = String(decoding: Base64.encode(identity.publicKeyDigest), as: UTF8.self)
        #expect(try client.result(request)?.get().body == [1])
        #expect(try client.result(request)?.get().body == [1])
        // Neither an open connection nor a resumable session is used for another key.
        for other in [String(decoding: Base64.encode(Array(repeating: 7, count: 32)), as: UTF8.self), nil] {
            var wrong = request
            wrong.pinnedPublicKey = other
            guard case .insecure = client.failure(wrong) else {
                Issue.record("\(other ?? "the usual checks"): \(String(describing: client.failure(wrong)))")
                continue
            }
        }
        #expect(requests.withLock { $0 } == 2)
        request.pinnedPublicKey = "short"
        guard case .badRequest = client.failure(request) else {
            Issue.record("a pin of another length")
            return
        }
        let plain = try LocalServer { _, exchange in
            requests.withLock { $0 += 1 }
            exchange.respond(status: 200)
        }
        var toPlain = HTTPClientRequest(plain.url("/"))
        toPlain.allowsPlainHTTP = true
        toPlain.pinnedPublicKey = String(decoding: Base64.encode(identity.publicKeyDigest), as: UTF8.self)
        #expect(client.failure(toPlain) != nil && requests.withLock { $0 } == 2)
    }

    @Test func aServerWithoutTLS() throws {
        let server = try RawServer(["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"])
        let client = try HTTPClient()
        defer { client.stop() }
        guard case .insecure = client.failure(HTTPClientRequest("https://127.0.0.1:\(server.port)/")) else {
            Issue.record("it was trusted")
            return
        }
    }

    // MARK: Errors

    @Test(
        arguments: [
            (HTTPClientError.cannotStart("x"), "The HTTP client can't start: x."),
            (.badRequest("x"), "The request can't be sent: x."),
            (.timedOut, "The server took too long."), (.unreachable("x"), "The server can't be reached: x."),
            (.insecure("x"), "The server can't be trusted: x."), (.tooManyRedirects, "The server redirects too often."),
            (.responseTooLarge, "The response is too large."), (.failed("x"), "The request failed: x."),
            (.refused("x"), "The request was not sent: x."), (.notSent("x"), "The request was not sent: x."),
            (.cancelled, "The request was cancelled."),
            (.addressNotAllowed(host: "x"), "x has no public address, and is not an allowed address."),
        ] as [(HTTPClientError, String)]) func errors(_ error: HTTPClientError, _ text: String)
    {
        #expect(error.description == text)
    }

    /// Checks that errors do not contain the address, which may include secrets.
    @Test(arguments: ["http://hunter2@[", "nothing-hunter2", "http://hunter2.invalid:99999/", "gopher://hunter2/"])
    func errorsDoNotRepeatTheAddress(_ url: String) throws {
        let client = try HTTPClient()
        defer { client.stop() }
        let error = try #require(client.failure(.plain(url)))
        #expect(!error.description.contains("hunter2"))
    }
}

extension String {
    fileprivate func components(_ separator: String) -> [String] {
        var parts: [String] = []
        var rest = self[...]
        while let range = rest.firstRange(of: separator) {
            parts.append(String(rest[..<range.lowerBound]))
            rest = rest[range.upperBound...]
        }
        return parts + [String(rest)]
    }
}
