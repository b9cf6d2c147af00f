import Testing

@testable import HTTPServer

/// Checks the parser alone, without a socket.
@Suite struct RequestParserTests {
    /// A parser with its table of callbacks.
    final class Bench {
        let parser: RequestParser
        private let pool: ParserPool

        init(_ configure: (inout HTTPServerSettings) -> Void = { _ in }) {
            var settings = HTTPServerSettings()
            configure(&settings)
            pool = ParserPool(limits: RequestParser.Limits(settings))
            parser = pool.take()
        }

        /// Feeds pieces until an outcome; returns the outcome and the bytes not consumed.
        func feed(_ pieces: [[UInt8]]) -> (RequestParser.Outcome, [UInt8]) {
            for (index, piece) in pieces.enumerated() where !piece.isEmpty {
                let (consumed, outcome) = piece.withUnsafeBytes { parser.feed($0) }
                if outcome != .needsMore {
                    return (outcome, Array(piece[consumed...]) + pieces[(index + 1)...].joined())
                }
            }
            return (.needsMore, [])
        }

        func feed(_ text: String) -> RequestParser.Outcome { feed([Array(text.utf8)]).0 }

        var headers: [String] {
            parser.fields.map {
                String(decoding: parser.head[Int($0.nameStart)..<Int($0.valueStart)], as: UTF8.self) + "="
                    + String(decoding: parser.head[Int($0.valueStart)..<Int($0.valueEnd)], as: UTF8.self)
            }
        }
    }

    static let chunked = """
        PUT /a/b%20c.json?print=silent HTTP/1.1\r\nHost: h\r\nX-Empty:\r\nX-Blank:  two words \t \r\n\
        Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\nTrailer: t\r\n\r\nREST
        """

    @Test func everyCutGivesTheSameRequest() {
        let bytes = Array(Self.chunked.utf8)
        for cut in 0...bytes.count {
            let bench = Bench()
            let (outcome, rest) = bench.feed([Array(bytes[..<cut]), Array(bytes[cut...])])
            #expect(outcome == .complete, "cut at \(cut)")
            #expect(rest == Array("REST".utf8), "cut at \(cut)")
            #expect(bench.parser.body == Array("abcdefgh".utf8), "cut at \(cut)")
            #expect(
                bench.headers == ["host=h", "x-empty=", "x-blank=two words", "transfer-encoding=Chunked"],
                "cut at \(cut)")
            #expect(bench.parser.targetLength == 26, "cut at \(cut)")
        }
    }

    @Test func byteByByte() {
        let bench = Bench()
        let (outcome, rest) = bench.feed(Self.chunked.utf8.map { [$0] })
        #expect(outcome == .complete)
        #expect(rest == Array("REST".utf8))
        #expect(bench.parser.body == Array("abcdefgh".utf8))
    }

    @Test func aParserThatWasResetStartsAfresh() {
        let bench = Bench()
        #expect(bench.feed("GET / HTTP/1.1\r\nHost") == .needsMore)
        bench.parser.reset()
        #expect(bench.feed("GET /x HTTP/1.1\r\nHost: b\r\n\r\n") == .complete)
        #expect(bench.headers == ["host=b"])
    }

    static let folded = [
        "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX:\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n\t \tb\r\n\r\n",
    ]

    @Test(arguments: folded) func foldedLinesAreRefusedHoweverTheyAreCut(_ text: String) {
        let bytes = Array(text.utf8)
        for cut in 1..<bytes.count {
            let (outcome, _) = Bench().feed([Array(bytes[..<cut]), Array(bytes[cut...])])
            #expect(outcome == .failed(.malformed("a folded header line")), "cut at \(cut)")
        }
        #expect(Bench().feed(bytes.map { [$0] }).0 == .failed(.malformed("a folded header line")))
    }

    @Test(arguments: [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\nabc", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\na", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\na", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 17000000\r\n\r\n", 413),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 501),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 501),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("PUT / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: a\r\nExpect: something\r\nContent-Length: 1\r\n\r\na", 417),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505),
        ("GET /\r\n\r\n", 505),
        ("BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        ("GET /a\u{1}b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET  HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\u{0}b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\u{1}b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
        ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}", 400),
    ]) func refusals(_ text: String, _ status: Int) {
        let bytes = Array(text.utf8)
        for pieces in [[bytes], bytes.map { [$0] }] {
            guard case .failed(let reason) = Bench().feed(pieces).0 else {
                Issue.record("not refused: \(text)")
                continue
            }
            #expect(reason.status == status, "\(reason) for \(text)")
        }
    }

    @Test func theBoundsAreExact() {
        let bounds: (inout HTTPServerSettings) -> Void = {
            $0.maxHeaderBytes = 300
            $0.maxHeaderCount = 3
            $0.maxTargetBytes = 20
            $0.maxBodyBytes = 5
        }
        func status(_ text: String) -> Int {
            switch Bench(bounds).feed(text) {
            case .complete: 200
            case .needsMore: 0
            case .failed(let reason): reason.status
            }
        }
        let target = "/" + String(repeating: "a", count: 19)
        #expect(status("GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n") == 200)
        #expect(status("GET \(target)a HTTP/1.1\r\nHost: a\r\n\r\n") == 414)
        #expect(status("GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 2\r\n\r\n") == 200)
        #expect(status("GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n") == 431)
        // Target 1, "host" + "a" + 4, "a" + value + 4.
        #expect(status("GET / HTTP/1.1\r\nHost: a\r\nA: \(String(repeating: "x", count: 285))\r\n\r\n") == 200)
        #expect(status("GET / HTTP/1.1\r\nHost: a\r\nA: \(String(repeating: "x", count: 286))\r\n\r\n") == 431)
        #expect(status("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde") == 200)
        #expect(status("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n") == 413)
        let chunks = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        #expect(status(chunks + "2\r\nde\r\n0\r\n\r\n") == 200)
        #expect(status(chunks + "3\r\ndef\r\n0\r\n\r\n") == 413)
        #expect(status(chunks + "0\r\nT: \(String(repeating: "x", count: 300))\r\n\r\n") == 431)
    }

    @Test func targets() throws {
        func parts(_ text: String) -> [String]? {
            let bytes = Array(text.utf8)
            guard let target = bytes.withUnsafeBufferPointer({ RequestTarget($0) }) else { return nil }
            func cut(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
            return [cut(target.authority), cut(target.path), target.query.map(cut) ?? "nil"]
        }
        #expect(parts("/") == ["", "/", "nil"])
        #expect(parts("/a.json?x=1?y") == ["", "/a.json", "x=1?y"])
        #expect(parts("/a?") == ["", "/a", ""])
        #expect(parts("/a#f?x") == ["", "/a", "nil"])
        #expect(parts("/a?x#f") == ["", "/a", "x"])
        #expect(parts("http://h:1/a?x") == ["h:1", "/a", "x"])
        #expect(parts("HTTPS://h") == ["h", "", "nil"])
        #expect(parts("http://h?x") == ["h", "", "x"])
        #expect(parts("http://") == ["", "http://", "nil"])
        #expect(parts("*") == ["", "*", "nil"])
        #expect(parts("/http://x") == ["", "/http://x", "nil"])
        #expect(parts("/\u{E9}") == ["", "/\u{E9}", "nil"])
        #expect(parts("") == nil)
        #expect(parts("/a b") == nil)
        #expect(parts("/\u{7F}") == nil)
    }
}
