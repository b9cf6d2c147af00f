import TestSupport
import Testing
import Tree
import Wire

@Suite struct CompoundHashTests {
    /// Checks values of the protocol reference (3.7): one part, whose hash is known.
    @Test(arguments: [
        ("{\"foo\":\"bar\"}", "foo", "LmKmJmXugtGlEGoulMbz86myDNw="),
        ("\"hello\"", "/", "kQE7uvpgdWqH+IH1/0AuDvIfiWI="),
        ("{\"foo\":{\".value\":\"bar\",\".priority\":\"baz\"}}", "foo", "Pg7xV/cwDhcX65Z5lEn4rKdDmX0="),
        ("{\"a\":1.5,\"b\":false}", "b", "neeDBpCsk3a9Dy32tlzJ97Qp/UQ="),
        ("{\"\\\"\":\"\\\\\"}", "\"", "FOWYDUaSghT140XRPqQ31kxA8NE="),
        ("{\"-Nabc\":{\"n\":1},\"zed\":true,\".priority\":7}", "zed", "dPzRMQDA069lO4ExbRrshsBzIlE="),
    ]) func knownValues(text: String, post: String, hash: String) throws {
        let compound = CompoundHash(of: try JSONParser.parse(text))
        #expect(compound.posts == [Path(splitting: post)])
        #expect(compound.hashes == [hash, ""])
    }

    @Test func nothingHasOneEmptyPart() {
        #expect(CompoundHash(of: .null) == CompoundHash(posts: [], hashes: [""]))
    }

    @Test func partsEndWithALeaf() throws {
        let node = try JSONParser.parse("{\"1\":\"one\",\"2\":\"two\",\"10\":\"ten\"}")
        let each = CompoundHash(of: node, partBytes: 0)
        #expect(each.posts.map(\.description) == ["/1", "/2", "/10"])
        // Split after "2", as in the reference: the first two are 36 bytes long.
        let two = CompoundHash(of: node, partBytes: 30)
        #expect(two.posts.map(\.description) == ["/2", "/10"])
        #expect(two.hashes == ["YkodEihR5l3UXCbbKSqqVp082GU=", "pfduDpANk3ljVHkUt4HdLwrlDao=", ""])
    }

    /// A part never ends with the priority of an inner node.
    @Test(arguments: [0, 5, 20, 60]) func prioritiesEndNoPart(partBytes: Int) throws {
        let node = try JSONParser.parse(
            "{\"foo\":{\"!before\":\"b\",\".priority\":\"prio\",\"after\":\"a\"},\"qux\":\"q\",\".priority\":1}")
        let compound = CompoundHash(of: node, partBytes: partBytes)
        #expect(compound.posts.dropLast().allSatisfy { !$0.namesPriority })
        #expect(compound.hashes.count == compound.posts.count + 1 && compound.hashes.last == "")
    }

    @Test(arguments: [211, 212, 213] as [UInt64]) func theServerHashesTheSame(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        for _ in 0..<200 {
            let node = generator.tree(depth: 4)
            for partBytes in [0, 10, 50, 300] {
                #expect(RangeMerge.differences(node, CompoundHash(of: node, partBytes: partBytes)).isEmpty)
            }
            #expect(RangeMerge.differences(node, CompoundHash(of: node)).isEmpty)
        }
    }

    /// Posts and hashes whose numbers don't match are rejected.
    @Test func countsMustFit() {
        #expect(CompoundHash(posts: [], hashes: []) == nil)
        #expect(CompoundHash(posts: [.root], hashes: [""]) == nil)
        #expect(CompoundHash(posts: [.root], hashes: ["a", "b", "c"]) == nil)
        #expect(CompoundHash(posts: [.root], hashes: ["a", ""]) != nil)
    }
}
