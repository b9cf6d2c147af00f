import TestSupport
import Testing
import Tree
import Wire

@Suite struct RequestPathTests {
    private func parse(_ text: String) throws(RESTError) -> Path { try RequestPath.parse(Array(text.utf8)[...]) }

    private func refusal(_ text: String) -> RESTError? {
        do throws(RESTError) {
            _ = try parse(text)
            return nil
        } catch {
            return error
        }
    }

    @Test func paths() throws {
        #expect(try parse("/.json") == .root)
        #expect(try parse("/a.json") == Path(splitting: "a"))
        #expect(try parse("/a/b.json") == Path(splitting: "a/b"))
        #expect(try parse("/a/b/.json") == Path(splitting: "a/b"))
        #expect(try parse("//a///b.json") == Path(splitting: "a/b"))
        #expect(try parse("/a%20b.json") == Path([Key("a b")]))
        #expect(try parse("/%F0%9F%98%80.json") == Path([Key("😀")]))
        #expect(try parse("/a/.priority.json") == Path([Key("a"), .priority]))
    }

    /// Firebase reads a raw plus as a space, and so do the SDKs in URLs.
    @Test func plusSignsAreSpaces() throws {
        #expect(try parse("/+91.json") == Path([Key(" 91")]))
        #expect(try parse("/%2B91.json") == Path([Key("+91")]))
        #expect(try parse("/%2b/a+b/c%20d.json") == Path([Key("+"), Key("a b"), Key("c d")]))
        #expect(try parse("/a+%2B/.priority.json") == Path([Key("a +"), .priority]))
    }

    @Test(arguments: [
        "/a.b.json", "/a%2Fb.json", "/a%23.json", "/a%24b.json", "/%5B0%5D.json", "/a%00.json", "/a%0A.json",
        "/a%7F.json",
        "/%zz.json", "/a%2.json", "/a%.json", "/%FF.json", "/%C3.json", "/%ED%A0%80.json", "/.priority/a.json",
        "/.info/connected.json",
    ])
    func invalidPaths(text: String) {
        #expect(refusal(text) == .invalidPath)
    }

    @Test(arguments: ["/", "/a", "/a.jsonp", "/json", "", "/a.JSON"])
    func missingSuffix(text: String) {
        #expect(refusal(text) == .appendJSON)
    }

    @Test func bounds() throws {
        let deep = String(repeating: "/k", count: 32)
        #expect(try parse(deep + ".json").depth == 32)
        #expect(try parse(deep + "/.priority.json").depth == 33)
        #expect(refusal(deep + "/k.json")?.status == 400)
        let long = String(repeating: "é", count: 384)
        #expect(try parse("/\(long).json").depth == 1)
        #expect(refusal("/\(long)x.json") == .invalidPath)
    }

    /// Every path that can be stored can be requested, percent-encoded or not.
    @Test(arguments: [1, 2] as [UInt64])
    func everyPathComesBack(seed: UInt64) throws {
        var random = TreeGenerator(seed: seed)
        for _ in 0..<500 {
            let path = random.path(maxDepth: 5)
            var text = ""
            for key in path.keys {
                text += "/"
                for byte in key.text.utf8 { text += "%" + hex(byte) }
            }
            #expect(try parse((text.isEmpty ? "/" : text) + ".json") == path)
        }
    }

    /// Any bytes at all result in a path or a refusal.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func anyBytes(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let pieces: [[UInt8]] = ["/", ".json", "%", "%2", "%41", "a", ".", "priority", "%C3%A9"].map { Array($0.utf8) }
        for _ in 0..<3_000 {
            var bytes: [UInt8] = []
            for _ in 0..<random.below(12) {
                bytes += random.oneIn(4) ? [UInt8(truncatingIfNeeded: random.next())] : random.pick(pieces)
            }
            if random.oneIn(2) { bytes += Array(".json".utf8) }
            guard let path = try? RequestPath.parse(bytes[...]) else { continue }
            for key in path.keys.dropLast() { #expect(KeyRules.violation(in: key) == nil) }
            #expect(path.depth <= KeyRules.maxDepth + 1)
        }
    }

    private func hex(_ byte: UInt8) -> String {
        String(byte >> 4, radix: 16) + String(byte & 15, radix: 16, uppercase: true)
    }
}
