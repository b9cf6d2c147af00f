import TestSupport
import Testing
import Tree

@testable import Wire

@Suite struct RealtimeRangeMergeTests {
    private struct Worked: Sendable, CustomTestStringConvertible {
        let node: String
        let posts: [String]
        let hashes: [String]
        var testDescription: String { node }
    }

    private static let worked: [Worked] = [
        .init(node: "{\"foo\":\"bar\"}", posts: ["foo"], hashes: ["LmKmJmXugtGlEGoulMbz86myDNw="]),
        .init(node: "\"hello\"", posts: ["/"], hashes: ["kQE7uvpgdWqH+IH1/0AuDvIfiWI="]),
        .init(
            node: "{\"foo\":{\".value\":\"bar\",\".priority\":\"baz\"}}", posts: ["foo"],
            hashes: ["Pg7xV/cwDhcX65Z5lEn4rKdDmX0="]),
        .init(node: "{\"a\":1.5,\"b\":false}", posts: ["b"], hashes: ["neeDBpCsk3a9Dy32tlzJ97Qp/UQ="]),
        .init(node: "{\"\\\"\":\"\\\\\"}", posts: ["\""], hashes: ["FOWYDUaSghT140XRPqQ31kxA8NE="]),
        .init(
            node: "{\"1\":\"one\",\"2\":\"two\",\"10\":\"ten\"}", posts: ["2", "10"],
            hashes: ["YkodEihR5l3UXCbbKSqqVp082GU=", "pfduDpANk3ljVHkUt4HdLwrlDao="]),
        .init(
            node:
                "{\"foo\":{\"!beforePriority\":\"before\",\".priority\":\"prio\",\"afterPriority\":\"after\"},\"qux\":\"qux\"}",
            posts: ["foo/.priority", "qux"], hashes: ["TNHQ1ppp/lp/iP3WA1GOUetV77U=", "eRF6PqPUdLcnQ/J24B4ofNFSH64="]),
        .init(
            node: "{\"-Nabc\":{\"n\":1},\"zed\":true,\".priority\":7}", posts: ["zed"],
            hashes: ["dPzRMQDA069lO4ExbRrshsBzIlE="]),
        .init(
            node: "{\"bar\":{\"deep\":\"value\"},\"foo\":{\"other-deep\":\"value\"}}",
            posts: ["bar/deep", "foo/other-deep"],
            hashes: ["Nq6PLLUyjPbRcyM3tpvqXJ5Dzm8=", "YRXpspSj3AnV90ZFjfGLH9lHAp8="]),
        .init(
            node: "{\"bar\":{\"deep\":\"value\"},\"foo\":{\"other-deep\":\"changed\"}}",
            posts: ["bar/deep", "foo/other-deep"],
            hashes: ["Nq6PLLUyjPbRcyM3tpvqXJ5Dzm8=", "138+AbV1JY5Cr//7Z5+RBurZZp0="]),
    ]

    @Test(arguments: worked) private func workedValues(_ worked: Worked) throws {
        let node = try JSONParser.parse(worked.node)
        let posts = worked.posts.map { Path(splitting: $0) }
        let hash = try #require(CompoundHash(posts: posts, hashes: worked.hashes + [""]))
        #expect(RangeMerge.differences(node, hash).isEmpty)
        for index in worked.hashes.indices {
            var wrong = worked.hashes
            wrong[index] = "x"
            let found = RangeMerge.differences(node, try #require(CompoundHash(posts: posts, hashes: wrong + [""])))
            #expect(found.map(\.start) == [index == 0 ? nil : posts[index - 1]])
            #expect(found.map(\.end) == [posts[index]])
        }
    }

    /// Clients omit from their text a priority that sorts after all keys. The range is then sent again.
    @Test func aPriorityAfterAllKeysIsHashed() throws {
        let node = try JSONParser.parse("{\"-Nabc\":{\"n\":1},\".priority\":7}")
        let quirk = try #require(
            CompoundHash(posts: [Path(splitting: "-Nabc/n")], hashes: ["7CupojRQAm1o2d7fhQPQl134vxg=", ""]))
        let found = RangeMerge.differences(node, quirk)
        #expect(found.count == 1 && found[0].start == Path(splitting: "-Nabc/n") && found[0].end == nil)
        #expect(text(found[0]) == "{\"-Nabc\":{\"n\":1},\".priority\":7}")
    }

    private func text(_ merge: RangeMerge) -> String {
        var writer = JSONWriter(form: .export)
        merge.write(to: &writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    @Test func theReferencesMessage() throws {
        let node = try JSONParser.parse("{\"bar\":{\"deep\":\"value\"},\"foo\":{\"other-deep\":\"changed\"},\"zoo\":1}")
        let hash = try #require(
            CompoundHash(
                posts: [Path(splitting: "bar/deep"), Path(splitting: "foo/other-deep")],
                hashes: ["Nq6PLLUyjPbRcyM3tpvqXJ5Dzm8=", "YRXpspSj3AnV90ZFjfGLH9lHAp8=", ""]))
        let push = ServerMessage.finish(
            ServerMessage.rangeMerge(RangeMerge.differences(node, hash), listener: Path(splitting: "x")), tag: nil)
        #expect(
            String(decoding: push, as: UTF8.self) == """
                {"t":"d","d":{"a":"rm","b":{"p":"x","d":[{"s":"bar/deep","e":"foo/other-deep","m":{"foo":{"other-deep":"changed"}}},\
                {"s":"foo/other-deep","m":{"zoo":1}}]}}}
                """)
    }

    @Test func rangesWithoutLeavesAreNull() throws {
        let hash = try #require(CompoundHash(posts: [Path(splitting: "a")], hashes: ["x", ""]))
        let found = RangeMerge.differences(.null, hash)
        #expect(found.map(text) == ["null"])
        #expect(RangeMerge.differences(.null, try #require(CompoundHash(posts: [], hashes: [""]))).isEmpty)
    }

    /// All ranges together are the whole tree, with any posts.
    @Test(arguments: [31, 32, 33, 34] as [UInt64]) func rangesArePartsOfTheWhole(seed: UInt64) throws {
        var generator = TreeGenerator(seed: seed)
        for _ in 0..<150 {
            let node = generator.tree(depth: 3)
            let rows = ModelRows(node).rows
            var posts = rows.filter { _ in generator.random.below(3) == 0 }.map(\.path)
            if generator.random.below(3) == 0 { posts.append(generator.path(maxDepth: 3)) }
            posts.sort { RangeMerge.order($0, $1) < 0 }
            let hash = try #require(
                CompoundHash(posts: posts, hashes: [String](repeating: "wrong", count: posts.count + 1)))
            let found = RangeMerge.differences(node, hash)
            #expect(found.count <= posts.count + 1 && found.first?.start == nil && found.last?.end == nil)
            #expect(found.flatMap(\.rows) == rows)
            var rebuilt = Node.null
            // Priorities of inner nodes come last: an empty node has no priority.
            for row in rows where !row.path.namesPriority { rebuilt = rebuilt.replacing(row.path, with: row.value) }
            for row in rows where row.path.namesPriority { rebuilt = rebuilt.replacing(row.path, with: row.value) }
            #expect(rebuilt == node)
            // With the right hashes there are no differences.
            let right = zip([nil] + posts, posts + [nil]).map { start, end in
                let part = RangeMerge(start: start, end: end, rows: [])
                return ModelText(rows.filter { part.includes($0.path) }[...]).hash
            }
            #expect(RangeMerge.differences(node, try #require(CompoundHash(posts: posts, hashes: right))).isEmpty)
        }
    }
}
