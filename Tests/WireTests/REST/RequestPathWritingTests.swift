import TestSupport
import Testing
import Tree
import Wire

@Suite struct RequestPathWritingTests {
    @Test(arguments: [
        ("", "/.json"), ("a", "/a.json"), ("a/b", "/a/b.json"), ("a b/é", "/a%20b/%C3%A9.json"),
        ("50%/a+b&c=d?", "/50%25/a%2Bb%26c%3Dd%3F.json"), ("a/.priority", "/a/.priority.json"),
        (".priority", "/.priority.json"), ("-N_x~y", "/-N_x~y.json"), ("😀", "/%F0%9F%98%80.json"),
        ("a:b@c!'()*,;", "/a%3Ab%40c%21%27%28%29%2A%2C%3B.json"),
    ]) func texts(path: String, text: String) throws {
        #expect(RequestPath.text(Path(splitting: path)) == text)
        #expect(try RequestPath.parse(Array(text.utf8)[...]) == Path(splitting: path))
    }

    @Test(arguments: [401, 402, 403] as [UInt64]) func roundTrip(seed: UInt64) throws {
        var generator = TreeGenerator(seed: seed)
        for _ in 0..<500 {
            let path = generator.writablePath(maxDepth: 6)
            let text = RequestPath.text(path)
            #expect(text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }, "only what may be in a request line")
            #expect(try RequestPath.parse(Array(text.utf8)[...]) == path, "\(text)")
        }
    }

    @Test func anyBytesArePercentEncoded() {
        let all = (0...255).map { UInt8($0) }
        let text = PercentEncoding.encode(all)
        #expect(PercentEncoding.decode(Array(text.utf8)) == all)
        #expect(PercentEncoding.decode(Array(text.utf8), plusIsSpace: true) == all)
        #expect(PercentEncoding.encode([]) == "")
        #expect(PercentEncoding.encode([0, 0x0A, 0x2F, 0x7F, 0xFF]) == "%00%0A%2F%7F%FF")
        let unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
        #expect(PercentEncoding.encode(unreserved.utf8) == unreserved)
        #expect(text.utf8.count { $0 == 0x25 } == 256 - unreserved.count)
    }
}
