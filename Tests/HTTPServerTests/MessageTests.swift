import Glibc
import Testing

@testable import HTTPServer

/// Checks that a head contains the intended fields, and that no text of a peer can add a line to it.
@Suite struct HTTPHeadersTests {
    private static func text(_ headers: HTTPHeaders) -> String { String(decoding: headers.encoded, as: UTF8.self) }

    @Test func order() {
        let headers: HTTPHeaders = ["B": "2", "A": "1", "B": "3"]
        #expect(Self.text(headers) == "B: 2\r\nA: 1\r\nB: 3\r\n")
        #expect(Self.text(HTTPHeaders([("B", "2"), ("A", "1")])) == "B: 2\r\nA: 1\r\n")
        #expect(Self.text(headers.adding("C", "4")) == "B: 2\r\nA: 1\r\nB: 3\r\nC: 4\r\n")
        // The headers are a copy: the first value is unchanged.
        #expect(Self.text(headers) == "B: 2\r\nA: 1\r\nB: 3\r\n")
        #expect(HTTPHeaders().isEmpty && !headers.isEmpty)
    }

    @Test(arguments: [
        "a\r\nSet-Cookie: x", "a\nb", "a\rb", "a\u{0}b", "\r\n\r\n", "\n", "a\r\n b",
    ]) func noLineCanBeAdded(_ value: String) {
        for headers in [HTTPHeaders([("Name", value)]), HTTPHeaders([(value, "value")])] {
            let bytes = headers.encoded
            #expect(bytes.filter { $0 == 0x0D }.count == 1 && bytes.filter { $0 == 0x0A }.count == 1)
            #expect(bytes.suffix(2) == [0x0D, 0x0A])
            #expect(!bytes.contains(0))
        }
    }

    @Test(arguments: [0, 1, 42, 65_536, UInt64.max]) func numbers(_ value: UInt64) {
        var headers = HTTPHeaders()
        headers.add("X-Number", value)
        #expect(Self.text(headers) == "X-Number: \(value)\r\n")
    }

    @Test func bytesBeyondASCIIStay() {
        #expect(Self.text(["X": "é😀"]) == "X: é😀\r\n")
    }
}

@Suite struct HTTPDateTests {
    /// The date agrees with the system's own over two centuries.
    @Test func agreesWithTheSystem() {
        var dice = SeededGenerator(seed: 5)
        var date = HTTPDate()
        for _ in 0..<2_000 {
            let second = time_t.random(in: 0...7_000_000_000, using: &dice)
            date.update(to: second)
            var (now, parts) = (second, tm())
            gmtime_r(&now, &parts)
            var buffer = [CChar](repeating: 0, count: 64)
            strftime(&buffer, 64, "%a, %d %b %Y %H:%M:%S GMT", &parts)
            let expected = buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
            #expect(date.bytes == expected)
            #expect(date.bytes.count == 29)
            #expect(date.second == second)
        }
    }
}

@Suite struct StatusLineTests {
    /// The prepared status lines equal those of the parser's table.
    @Test(arguments: 100..<600) func reasons(_ status: Int) {
        guard let ready = StatusLine.ready(status) else { return }
        let text = String(
            decoding: UnsafeBufferPointer(start: ready.utf8Start, count: ready.utf8CodeUnitCount), as: UTF8.self)
        #expect(text == "HTTP/1.1 \(status) \(StatusLine.reason(status))\r\n")
    }

    @Test(arguments: [
        (200, "OK"), (308, "Permanent Redirect"), (413, "Payload Too Large"), (429, "Too Many Requests"),
        (503, "Service Unavailable"), (299, ""), (99, ""), (600, ""), (0, ""), (-1, ""), (599, ""),
    ]) func names(_ status: Int, _ reason: String) {
        #expect(StatusLine.reason(status) == reason)
    }
}

@Suite struct HTTPMethodTests {
    @Test(arguments: [
        ("GET", HTTPMethod.get), ("HEAD", .head), ("POST", .post), ("PUT", .put), ("PATCH", .patch),
        ("DELETE", .delete),
        ("OPTIONS", .options), ("TRACE", .trace), ("PROPFIND", .other("PROPFIND")), ("LOCK", .other("LOCK")),
    ]) func names(_ text: String, _ method: HTTPMethod) {
        let bench = RequestParserTests.Bench()
        #expect(bench.feed("\(text) / HTTP/1.1\r\nHost: a\r\n\r\n") == .complete)
        #expect(HTTPMethod(parserCode: bench.parser.facts.method) == method)
        #expect(method.description == text)
    }

    @Test func whatTheParserDoesNotKnow() {
        #expect(
            HTTPMethod(parserCode: 9_999).description.isEmpty
                || HTTPMethod(parserCode: 9_999).description == "<unknown>")
    }
}

/// Checks the facts that decide the end of a request with one table.
@Suite struct HeadFactsTests {
    struct Facts: Equatable {
        var keepsAlive: Bool
        var isUpgrade = false
        var expectsContinue = false
        var minor: UInt16 = 1
    }

    @Test(
        arguments: [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", Facts(keepsAlive: true)),
            ("GET / HTTP/1.1\r\nHost:\r\n\r\n", Facts(keepsAlive: true)),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", Facts(keepsAlive: false)),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: CLOSE\r\n\r\n", Facts(keepsAlive: false)),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, close\r\n\r\n", Facts(keepsAlive: false)),
            ("GET / HTTP/1.0\r\n\r\n", Facts(keepsAlive: false, minor: 0)),
            ("GET / HTTP/1.0\r\nHost: a\r\n\r\n", Facts(keepsAlive: false, minor: 0)),
            ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Facts(keepsAlive: true, minor: 0)),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
                Facts(keepsAlive: true, isUpgrade: true)
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
                Facts(keepsAlive: true, isUpgrade: true)
            ),
            ("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", Facts(keepsAlive: true)),
            (
                "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
                Facts(keepsAlive: true, expectsContinue: true)
            ),
            (
                "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 0\r\n\r\n",
                Facts(keepsAlive: true, expectsContinue: true)
            ),
            // A peer with an older version does not understand interim answers.
            ("PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n", Facts(keepsAlive: false, minor: 0)),
        ] as [(String, Facts)]) func heads(_ text: String, _ expected: Facts)
    {
        let bytes = Array(text.utf8)
        for pieces in [[bytes], bytes.map { [$0] }] {
            let bench = RequestParserTests.Bench()
            #expect(bench.feed(pieces).0 == .complete, "\(text)")
            let facts = bench.parser.facts
            #expect(
                Facts(
                    keepsAlive: facts.keepsAlive, isUpgrade: facts.isUpgrade, expectsContinue: facts.expectsContinue,
                    minor: facts.minor) == expected, "\(text)")
        }
    }

    @Test(arguments: [
        ("host", "host", true), ("Host", "host", false), ("hos", "host", false), ("hosts", "host", false),
        ("", "", true),
    ]) func exactText(_ text: String, _ other: String, _ isEqual: Bool) {
        let bytes = Array(text.utf8)[...]
        #expect((other == "host" ? bytes.equals("host") : bytes.equals("")) == isEqual)
    }

    @Test(arguments: [
        ("chunked", true), ("Chunked", true), ("CHUNKED", true), ("chunke", false), ("chunkedx", false),
        (" chunked", false),
        ("chunKed", true), ("chunk\u{E9}", false), ("CHUNKE\u{4}", false),
    ]) func anyCase(_ text: String, _ isEqual: Bool) {
        #expect(Array(text.utf8)[...].equalsIgnoringCase("chunked") == isEqual)
    }

    /// Only a letter's other case is equal to the letter.
    @Test func onlyLettersHaveCases() {
        for byte in UInt8.min...UInt8.max {
            #expect([byte][...].equalsIgnoringCase("a") == (byte == 0x61 || byte == 0x41))
            #expect([byte][...].equalsIgnoringCase("-") == (byte == 0x2D))
            #expect([byte][...].equalsIgnoringCase("0") == (byte == 0x30))
        }
    }

    @Test(
        arguments: [
            (ParseFailure.malformed("x"), 400, "Malformed request: x."),
            (.targetTooLong, 414, "The request target is too long."),
            (.headersTooLarge, 431, "The request's headers are too large."),
            (.bodyTooLarge, 413, "The request's body is too large."),
            (.unknownExpectation, 417, "Only the expectation 100-continue is supported."),
            (.unsupportedTransferEncoding, 501, "Only the transfer encoding chunked is supported."),
            (.unsupportedVersion, 505, "Only HTTP/1.1 and HTTP/1.0 are supported."),
        ] as [(ParseFailure, Int, String)]) func refusals(_ failure: ParseFailure, _ status: Int, _ text: String)
    {
        #expect(failure.status == status)
        #expect(failure.text == text)
    }
}

/// Checks that a target's parts are at the right offsets, for any bytes.
@Suite struct RequestTargetTests {
    @Test(arguments: 0..<300) func partsAreInOrderAndWithin(_ seed: UInt64) {
        var dice = SeededGenerator(seed: seed &* 7 + 3)
        let alphabet = Array("/?#:htps.a%*\u{E9}".utf8) + [0x20, 0x00, 0x7F, 0x1F]
        let isPlain = seed % 3 != 0
        let length = Int.random(in: 0...24, using: &dice)
        let prefix = Bool.random(using: &dice) ? Array("http://".utf8) : []
        let bytes =
            prefix
            + (0..<length).map { _ in
                (isPlain ? alphabet.dropLast(4) : alphabet[...]).randomElement(using: &dice) ?? 0x2F
            }
        let target = bytes.withUnsafeBufferPointer { RequestTarget($0) }
        let isBad = bytes.isEmpty || bytes.contains { $0 <= 0x20 || $0 == 0x7F }
        #expect((target == nil) == isBad)
        guard let target else { return }
        let end = bytes.firstIndex(of: 0x23) ?? bytes.count
        #expect(target.authority.upperBound <= target.path.lowerBound || target.authority.isEmpty)
        #expect(target.path.upperBound <= end)
        if let query = target.query {
            #expect(bytes[query.lowerBound - 1] == 0x3F)
            #expect(query.lowerBound == target.path.upperBound + 1)
            #expect(query.upperBound == end)
        } else {
            #expect(!bytes[..<end].contains(0x3F))
        }
        #expect(!bytes[target.path].contains(0x3F) && !bytes[target.path].contains(0x23))
        #expect(!bytes[target.authority].contains(0x2F))
    }
}
