import Testing
import Tree

/// Checks objects whose keys come in any order, twice, or with no data: small ones are kept sorted while they are read,
/// large ones are sorted at their end, and long texts cache their keys. The result is the same.
struct LargeObjectTests {
    @Test(arguments: [1, 2, 30, 62, 63, 64, 65, 66, 67, 100, 500], [1, 2, 3] as [UInt64])
    func `keys in any order`(count: Int, seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var model: [String: Int] = [:]
        var members: [String] = []
        for step in 0..<count + random.below(20) {
            let key = random.oneIn(3) ? "\(random.below(count))" : "k\(random.below(count))"
            if random.oneIn(5) {
                model[key] = nil
                members.append("\"\(key)\":null")
            } else {
                model[key] = step
                members.append("\"\(key)\":\(step)")
            }
        }
        let read = try node("{" + members.joined(separator: ",") + "}")
        #expect(read == Node(children: model.map { (Key($0.key), Node.int(Int64($0.value))) }))
        #expect(read.keys == model.keys.map { Key($0) }.sorted().map(\.text))
    }

    @Test(arguments: [10, 64, 65, 200])
    func `descending and ascending keys`(count: Int) throws {
        let members = (0..<count).map { "\"\($0 + 1_000)\":\($0)" }
        let ascending = try node("{" + members.joined(separator: ",") + "}")
        let descending = try node("{" + members.reversed().joined(separator: ",") + "}")
        #expect(ascending == descending && ascending.childCount == count)
    }

    @Test func `inner objects do not disturb the outer one`() throws {
        let inner = (0..<80).reversed().map { "\"i\($0)\":\($0)" }.joined(separator: ",")
        let text = (0..<80).reversed().map { "\"o\($0)\":{\(inner)}" }.joined(separator: ",")
        let read = try node("{\(text)}")
        #expect(read.childCount == 80)
        for number in 0..<80 { #expect(read[path("o7/i\(number)")] == .int(Int64(number))) }
        #expect(read.rowCount == 6_400)
    }

    /// Texts from 16 KiB on cache keys by their ends and their length: keys that have these in common are
    /// distinguished.
    @Test func `keys that look alike`() throws {
        let keys = [
            "aaaaaaaaXXaaaaaaaa", "aaaaaaaaYYaaaaaaaa", "aaaaaaaaXaaaaaaaa", "aaaaaaaa", "aaaaaaa", "aaaaaaab",
            "baaaaaaa", "ab", "ba", "a\u{301}b", "áb", "aaaaaaaaéaaaaaaaa", "aaaaaaaaèaaaaaaaa",
            String(repeating: "z", count: 63), String(repeating: "z", count: 64), String(repeating: "z", count: 65),
        ]
        let record = "{" + keys.enumerated().map { "\"\($0.element)\":\($0.offset)" }.joined(separator: ",") + "}"
        let once = try node(record)
        #expect(once.childCount == keys.count)
        let many = try node("[" + Array(repeating: record, count: 200).joined(separator: ",") + "]")
        for number in 0..<200 { #expect(many.child(Key("\(number)")) == once) }
    }

    @Test func `a forbidden key in a long text is found each time`() {
        let good = Array(repeating: "{\"name\":1}", count: 2_000).joined(separator: ",")
        #expect(parseError("[\(good)]") == nil)
        for bad in ["{\"na.me\":1}", "{\"name\":1,\"\":2}", "{\"na\\u0000me\":1}"] {
            let error = parseError("[\(good),\(bad),\(bad)]")
            #expect(error?.kind == .key)
            #expect((error?.column ?? 0) > good.count)
        }
    }
}
