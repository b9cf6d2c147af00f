import TestSupport
import Testing
import Tree
import Wire

/// Checks how a client applies the ranges that it receives (rtdb-protocol 3.7).
@Suite struct RangeMergeApplyingTests {
    private func ranges(_ text: String) throws -> [RangeMerge] {
        let message = "{\"t\":\"d\",\"d\":{\"a\":\"rm\",\"b\":{\"p\":\"x\",\"d\":\(text)}}}"
        guard case .push(.ranges(_, let ranges, nil, nil)) = try ServerMessageParser.parse(Array(message.utf8)) else {
            throw MessageError(reason: "no ranges")
        }
        return ranges
    }

    private func applied(_ text: String, to value: String) throws -> String {
        let node = RangeMerge.apply(try ranges(text), to: try JSONParser.parse(value))
        return string(JSONWriter.encode(node, form: .export))
    }

    @Test func theReferencesExample() throws {
        let had = "{\"bar\":{\"deep\":\"value\"},\"foo\":{\"other-deep\":\"value\"}}"
        let sent = """
            [{"s":"bar/deep","e":"foo/other-deep","m":{"foo":{"other-deep":"changed"}}},{"s":"foo/other-deep","m":{"zoo":1}}]
            """
        #expect(
            try applied(sent, to: had)
                == "{\"bar\":{\"deep\":\"value\"},\"foo\":{\"other-deep\":\"changed\"},\"zoo\":1}")
    }

    @Test(arguments: [
        // All data is replaced; no data is replaced.
        ("[{\"m\":{\"z\":1}}]", "{\"a\":1,\"b\":2}", "{\"z\":1}"), ("[]", "{\"a\":1}", "{\"a\":1}"),
        ("[{\"m\":null}]", "{\"a\":1}", "null"), ("[{\"m\":5}]", "{\"a\":1}", "5"),
        ("[{\"m\":{\"a\":1}}]", "5", "{\"a\":1}"),
        // The start is excluded from the range, and the end is included.
        (
            "[{\"s\":\"a\",\"e\":\"c\",\"m\":null}]", "{\"a\":1,\"b\":2,\"c\":3,\"d\":4}", "{\"a\":1,\"d\":4}"
        ),
        // Paths below the start are in the range, and paths below the end are not.
        (
            "[{\"s\":\"a\",\"e\":\"c\",\"m\":{\"b\":9}}]",
            "{\"a\":{\"x\":1},\"b\":2,\"c\":{\"y\":3}}", "{\"b\":9,\"c\":{\"y\":3}}"
        ),
        // A leaf at the end replaces the data below it.
        ("[{\"s\":\"a\",\"e\":\"c\",\"m\":{\"c\":7}}]", "{\"a\":1,\"c\":{\"y\":3}}", "{\"a\":1,\"c\":7}"),
        // Integers come first, in numeric order.
        ("[{\"s\":\"9\",\"e\":\"10\",\"m\":null}]", "{\"9\":1,\"10\":2,\"a\":3}", "{\"9\":1,\"a\":3}"),
        // The priority of an inner node is a leaf of its own.
        (
            "[{\"s\":\"!\",\"m\":{\".priority\":7}}]", "{\"!\":1,\"a\":2,\"b\":3}",
            "{\"!\":1,\".priority\":7}"
        ),
        // Leaves and priorities outside the range have no effect.
        (
            "[{\"s\":\"a\",\"e\":\"c\",\"m\":{\"a\":9,\"b\":1,\"d\":8,\".priority\":7}}]", "{\"a\":2,\"c\":3,\"d\":4}",
            "{\"a\":2,\"b\":1,\"d\":4}"
        ),
        ("[{\"e\":\"a\",\"m\":{\"a\":1}}]", "{\"a\":1,\"b\":2,\".priority\":7}", "{\"a\":1,\"b\":2}"),
        (
            "[{\"m\":{\"a\":{\".value\":1,\".priority\":2}}}]", "{\"a\":1}",
            "{\"a\":{\".value\":1,\".priority\":2}}"
        ),
    ]) func cases(sent: String, had: String, has: String) throws {
        #expect(try applied(sent, to: had) == has)
    }

    /// Arrays are children with index keys, null is no value, and a leaf of an array is in the range or not by itself.
    @Test(arguments: [
        ("[{\"m\":[1,null,{\"x\":[2]}]}]", "5", "{\"0\":1,\"2\":{\"x\":{\"0\":2}}}"),
        (
            "[{\"s\":\"a/0\",\"e\":\"a/1\",\"m\":{\"a\":[7,8,9]}}]", "{\"a\":[1,2,3]}",
            "{\"a\":{\"0\":1,\"1\":8,\"2\":3}}"
        ),
        (
            "[{\"m\":{\"a\":{\".value\":null,\"b\":1},\"c\":{\".value\":null},\"d\":{\"e\":[]}}}]", "null",
            "{\"a\":{\"b\":1}}"
        ),
        ("[{\"m\":{\"a\":{\".value\":1,\".value\":2}}}]", "null", "{\"a\":2}"),
        ("[{\"m\":{\".value\":1,\".priority\":2}}]", "null", "{\".value\":1,\".priority\":2}"),
        ("[{\"m\":-0.0},{\"s\":\"/\",\"m\":null}]", "null", "-0.0"),
        ("[{\"m\":{\"a\":9007199254740993,\"b\":1e300}}]", "null", "{\"a\":9007199254740993,\"b\":1e+300}"),
    ]) func valuesOfAnyForm(sent: String, had: String, has: String) throws {
        #expect(try applied(sent, to: had) == has)
    }

    @Test(arguments: [
        "{\"a\":{\".value\":1,\"b\":2}}", "{\"a\":{\".value\":{\"b\":2}}}", "{\"a\":{\".value\":[1]}}",
        "{\".sv\":\"timestamp\"}",
        "{\"a\":1,\"a\":2}", "{\"a\":{\"b\":1},\"a\":2}", "1e400", "{\"a\":-1e999}", "{\".priority\":{\"a\":1}}",
        "{\"a\":{\".priority\":[1]}}",
        "{\"a/b\":1}", "{\"\":1}", "{\"a\":[[1,2}",
    ]) func invalidValuesAreRefused(data: String) {
        #expect(throws: MessageError.self) { try ranges("[{\"m\":\(data)}]") }
    }

    @Test func deepValuesAreRefused() throws {
        func nested(_ open: String, _ close: String, _ count: Int) -> String {
            "[{\"m\":" + String(repeating: open, count: count) + "1" + String(repeating: close, count: count) + "}]"
        }
        // The ranges are relative to a path of one level.
        #expect(try ranges(nested("[", "]", 31)).count == 1)
        #expect(try ranges(nested("{\"a\":", "}", 31)).count == 1)
        for count in [32, 100_000] {
            #expect(throws: MessageError.self) { try ranges(nested("[", "]", count)) }
            #expect(throws: MessageError.self) { try ranges(nested("{\"a\":", "}", count)) }
        }
    }

    /// The leaves of a range may come in any order, as may members of the range.
    @Test func orderDoesNotMatter() throws {
        let one = try ranges("[{\"m\":{\"a\":{\"b\":1,\"c\":2},\"d\":3},\"e\":\"d\"}]")
        let other = try ranges("[{\"e\":\"d\",\"m\":{\"d\":3,\"a\":{\"c\":2,\"b\":1}}}]")
        #expect(one == other)
    }

    /// A client that receives the differences between its tree and the server's has the server's tree afterwards, with
    /// any division of its hashes, and also over the wire.
    @Test(arguments: [201, 202, 203, 204, 205, 206] as [UInt64]) func bothSidesAgree(seed: UInt64) throws {
        var generator = TreeGenerator(seed: seed)
        for round in 0..<150 {
            let server = generator.tree(depth: 4)
            var client = server
            for _ in 0..<generator.random.below(4) {
                let location = generator.writablePath(maxDepth: 3)
                let value = location.namesPriority ? generator.priority() : generator.tree(depth: 2)
                client = client.replacing(location, with: value)
            }
            if generator.random.oneIn(8) { client = generator.tree(depth: 3) }
            let hash = CompoundHash(of: client, partBytes: generator.random.below(200))
            let differences = RangeMerge.differences(server, hash)
            if client == server { #expect(differences.isEmpty, "seed \(seed), round \(round)") }
            let message = ServerMessage.push(.ranges(.root, differences, tag: nil))
            guard case .push(.ranges(_, let read, _, _)) = try ServerMessageParser.parse(message.text) else {
                Issue.record("no ranges")
                continue
            }
            #expect(read == differences, "seed \(seed), round \(round)")
            #expect(RangeMerge.apply(read, to: client) == server, "seed \(seed), round \(round)")
        }
    }

    /// Only differences are sent: one changed leaf of many causes a small message.
    @Test func littleIsSentForALittleChange() throws {
        let server = Node(
            children: (0..<2_000).map { (Key("k\($0)"), Node.string("value \($0)")) })
        let client = server.replacing(Path(splitting: "k1234"), with: .int(1))
        let hash = CompoundHash(of: client)
        #expect(hash.posts.count > 10 && hash.posts.count < 200)
        let differences = RangeMerge.differences(server, hash)
        #expect(differences.count == 1)
        let size = ServerMessage.push(.ranges(.root, differences, tag: nil)).text.count
        #expect(size * 10 < JSONWriter.encode(server, form: .export).count)
    }
}
