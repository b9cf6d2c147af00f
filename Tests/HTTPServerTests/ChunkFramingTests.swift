import Testing

@testable import HTTPServer

/// Checks the lines around chunks, where proxies and servers may disagree about the end of a request.
@Suite struct ChunkFramingTests {
    typealias Bench = RequestParserTests.Bench

    static let head = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

    @Test(arguments: [
        "3;a\nb\r\nabc\r\n0\r\n\r\n",
        "3;a\n\r\nabc\r\n0\r\n\r\n",
        "3\nabc\r\n0\r\n\r\n",
        "3;a\u{0}b\r\nabc\r\n0\r\n\r\n",
        "3;a\u{1}b\r\nabc\r\n0\r\n\r\n",
        "3;a\u{7F}b\r\nabc\r\n0\r\n\r\n",
        "3;a=\"b\nc\"\r\nabc\r\n0\r\n\r\n",
        "3;a\rb\r\nabc\r\n0\r\n\r\n",
        "3\rXabc\r\n0\r\n\r\n",
        "3\r\r\nabc\r\n0\r\n\r\n",
        "3\r\nabcXY0\r\n\r\n",
        "3\r\nabc\rX0\r\n\r\n",
        "3\r\nabc\n\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc\r\n0;\n\r\n\r\n",
        "3\r\nabc\r\n0\rX\r\n",
        "3\r\nabc\r\n0\r\n\rX",
        "3\r\nabc\r\n0\r\nTrailer: x\r\n\rX",
        "3\r\nabc\r\n0\r\nTrailer: x\u{0}\r\n\r\n",
        "\r\nabc\r\n0\r\n\r\n",
        ";x\r\n0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "3,\r\nabc\r\n0\r\n\r\n",
        "10000000000000003\r\nabc\r\n0\r\n\r\n",
    ]) func refusals(_ body: String) {
        let bytes = Array((Self.head + body).utf8)
        var cuts = (0...bytes.count).map { [Array(bytes[..<$0]), Array(bytes[$0...])] }
        cuts.append(bytes.map { [$0] })
        for pieces in cuts {
            guard case .failed(.malformed) = Bench().feed(pieces).0 else {
                Issue.record("not refused: \(body)")
                return
            }
        }
    }

    @Test(arguments: [
        "3\r\nabc\r\n0\r\n\r\n",
        "003 \r\nabc\r\n000\r\n\r\n",
        "3;name\r\nabc\r\n0;last\r\n\r\n",
        "3 ; name = \"a;\\\"b\"\r\nabc\r\n0\r\n\r\n",
        "3;\tname=caf\u{E9}\r\nabc\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n",
        "1\r\na\r\n02;x\r\nbc\r\n0\r\n\r\n",
    ]) func whatIsRight(_ body: String) {
        let bytes = Array((Self.head + body + "REST\u{0}\n").utf8)
        for cut in 0...bytes.count {
            let bench = Bench()
            let (outcome, rest) = bench.feed([Array(bytes[..<cut]), Array(bytes[cut...])])
            #expect(outcome == .complete, "\(body) cut at \(cut)")
            #expect(bench.parser.body == Array("abc".utf8), "\(body) cut at \(cut)")
            #expect(rest == Array("REST\u{0}\n".utf8), "\(body) cut at \(cut)")
        }
    }

    @Test func extensionsHaveABound() {
        func outcome(_ count: Int) -> RequestParser.Outcome {
            Bench().feed(Self.head + "1;" + String(repeating: "x", count: count) + "\r\na\r\n0\r\n\r\n")
        }
        #expect(outcome(ChunkFraming.maxLineBytes - 2) == .complete)
        #expect(outcome(ChunkFraming.maxLineBytes - 1) == .failed(.malformed("a chunk's extensions are too long")))
    }

    /// Only a line feed ends the headers of a request.
    @Test(arguments: ["GET / HTTP/1.1\r\nHost: a\r\n\rX", "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\rXa"])
    func theEndOfTheHeaders(_ text: String) {
        let bytes = Array(text.utf8)
        for pieces in [[bytes], bytes.map { [$0] }] {
            guard case .failed(.malformed) = Bench().feed(pieces).0 else {
                Issue.record("not refused: \(text)")
                continue
            }
        }
    }
}
