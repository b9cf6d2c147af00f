import Compression
import HTTPServer
import Runtime
import TestSupport
import Testing
import Tree

@testable import Gateway

/// Tests of the cache of values that were encoded for GET requests.
@Suite struct EncodedValueCacheTests {
    private final class Somewhere: Sendable {}
    private static let namespace = Somewhere()

    private static func key(_ path: String, isPretty: Bool = false) -> EncodedValueCache.CacheKey {
        EncodedValueCache.CacheKey(
            namespace: ObjectIdentifier(namespace), path: Path(splitting: path), form: .plain, isPretty: isPretty)
    }

    private static func string(_ length: Int) -> Node { .string(String(repeating: "x", count: length)) }

    private static func tree(_ rows: Int) -> Node {
        Node(children: (0..<rows).map { (Key("k\($0)"), Node.int(Int64($0))) })
    }

    private static func values(_ bytes: Int = 1 << 20) -> EncodedValueCache {
        EncodedValueCache(bytes: bytes, WorkerPool(name: "worker", threads: 1))
    }

    private static func kept(_ node: Node) throws -> EncodedValueCache.Kept {
        try #require(EncodedValueCache.Kept(node, WrittenValue(text: JSONWriter.encode(node, form: .plain))))
    }

    @Test func whatIsTheSameIsFound() throws {
        for node in [Self.string(5_000), Self.tree(100)] {
            let values = Self.values()
            let key = Self.key("/a")
            #expect(values.find(key, node) == nil)
            values.keep(try Self.kept(node), at: key)
            #expect(values.find(key, node)?.text == JSONWriter.encode(node, form: .plain))
            #expect(values.find(Self.key("/a", isPretty: true), node) == nil)
            #expect(values.find(Self.key("/b"), node) == nil)
        }
    }

    @Test func whatHasChangedIsNot() throws {
        let values = Self.values()
        let key = Self.key("/a")
        let tree = Self.tree(100)
        values.keep(try Self.kept(tree), at: key)
        // An equal value in a different node is not found: the cache does not compare trees.
        #expect(values.find(key, Self.tree(100)) == nil)
        let changed = tree.replacing(Path(splitting: "/k7/below"), with: .int(7))
        #expect(values.find(key, changed) == nil)
        values.keep(try Self.kept(changed), at: key)
        #expect(values.find(key, changed)?.text == JSONWriter.encode(changed, form: .plain))
        #expect(values.find(key, tree) == nil)
        let string = Self.string(2_000)
        values.keep(try Self.kept(string), at: key)
        #expect(values.find(key, Self.string(2_001)) == nil)
        #expect(values.find(key, string) != nil)
    }

    @Test func whatIsSmallIsNotWorthIt() {
        let values = Self.values()
        for node in [.null, .int(1), .bool(true), .double(0.5), Self.string(1_023), Self.tree(31)] as [Node] {
            #expect(!values.isWorthKeeping(node))
        }
        #expect(values.isWorthKeeping(Self.string(1_024)))
        #expect(values.isWorthKeeping(Self.tree(32)))
        #expect(!Self.values(0).isWorthKeeping(Self.string(1_024)))
        // An answer without text and ETag is not cached either.
        #expect(EncodedValueCache.Kept(Self.tree(32), WrittenValue()) == nil)
        // A value whose release would block a loop too long is not cached.
        #expect(values.isWorthKeeping(Self.tree(50_000)))
        #expect(!values.isWorthKeeping(Self.tree(50_001)))
    }

    /// Checks that the cache counts the memory of whole nodes, even if the encoded text contains little of it.
    @Test func nodesAreCountedWhole() throws {
        let long = Node.string(String(repeating: "p", count: 100_000))
        let node = Node(children: (0..<40).map { (Key("k\($0)"), Node.int(1).withPriority(long)) })
        #expect(JSONWriter.encode(node, form: .plain).count < 1_000)
        let few = Self.values(1_000_000)
        few.keep(try Self.kept(node), at: Self.key("/a"))
        // All children share one text of 100,000 bytes.
        #expect(few.find(Self.key("/a"), node) != nil)
        let apart = Node(
            children: (0..<40).map { number in
                let priority = Node.string(String(repeating: "p", count: 100_000) + "\(number)")
                return (Key("k\(number)"), Node.int(1).withPriority(priority))
            })
        few.keep(try Self.kept(apart), at: Self.key("/b"))
        #expect(few.find(Self.key("/b"), apart) == nil)
        // The path is counted, too.
        let deep = "/" + (0..<30).map { _ in String(repeating: "d", count: 700) }.joined(separator: "/")
        let narrow = Self.values(40_000)
        narrow.keep(try Self.kept(Self.string(1_024)), at: Self.key(deep))
        #expect(narrow.find(Self.key(deep), Self.string(1_024)) == nil)
    }

    /// Checks that the cache never exceeds its budget, and that requested values remain longest.
    @Test func roomIsBounded() throws {
        let values = Self.values(100_000)
        let nodes = (0..<200).map { _ in Self.string(5_000) }
        let first = Self.key("/n0")
        for (number, node) in nodes.enumerated() {
            values.keep(try Self.kept(node), at: Self.key("/n\(number)"))
            #expect(values.find(first, nodes[0]) != nil)
        }
        var found = 0
        for (number, node) in nodes.enumerated() where values.find(Self.key("/n\(number)"), node) != nil {
            found += 1
        }
        #expect((4...9).contains(found))
        // A value larger than the budget of a generation is not cached, and the previous value at the path differs from
        // it.
        let large = Self.string(60_000)
        values.keep(try Self.kept(large), at: first)
        #expect(values.find(first, large) == nil)
        #expect(values.find(first, nodes[0]) == nil)
    }

    @Test func compressedAnswersAreNotCompressedAgain() throws {
        var value = WrittenValue()
        #expect(value.compressedText() == nil)
        #expect(!value.suffices(compressedFrom: nil, tag: false))
        let text = value.text { Array(repeating: UInt8(ascii: "7"), count: 4_000) }
        #expect(value.suffices(compressedFrom: nil, tag: false))
        #expect(!value.suffices(compressedFrom: 1, tag: false))
        #expect(value.suffices(compressedFrom: 4_001, tag: false))
        let made = value.compressedText()
        let compressed = try #require(made)
        #expect(try Gzip.decompress(compressed, limit: 10_000) == text)
        #expect(value.suffices(compressedFrom: 1, tag: false))
        #expect(value.tag { "tag" } == "tag")
        #expect(value.suffices(compressedFrom: 1, tag: true))
        #expect(value.text { [] } == text)
        #expect(value.tag { "other" } == "tag")
        // A value that cannot be compressed is not compressed again.
        var short = WrittenValue(text: [1, 2, 3])
        #expect(short.compressedText() == nil)
        #expect(short.suffices(compressedFrom: 1, tag: false))
    }

    /// Checks over HTTP that every form is answered correctly before and after a write, with and without the cache.
    @Test(arguments: ["\"\(String(repeating: "x\\n", count: 2_000))\"", bigTree]) func answersAreTheSame(_ json: String)
        throws
    {
        try withGateway {
            $0.heavyRows = 100
        } server: {
            $0.loops = 1
        } _: { gateway in
            let client = try WebClient(gateway.port)
            _ = try client.request("PUT", "/a/v.json", body: json)
            func check(_ json: String) throws {
                let node = try JSONParser.parse(json)
                for _ in 0..<3 {
                    let plain = try client.request("GET", "/a/v.json")
                    #expect(plain.text == String(decoding: JSONWriter.encode(node, form: .plain), as: UTF8.self))
                    let pretty = try client.request("GET", "/a/v.json?print=pretty")
                    #expect(try JSONParser.parse(pretty.text) == node)
                    let compressed = try client.request("GET", "/a/v.json", ["Accept-Encoding": "gzip"])
                    let isCompressed = compressed.headers["content-encoding"] == "gzip"
                    #expect(isCompressed == (plain.body.count > 1_024))
                    #expect(
                        isCompressed
                            ? try Gzip.decompress(compressed.body, limit: 1_000_000) == plain.body
                            : compressed.body == plain.body)
                    let tagged = try client.request("GET", "/a/v.json", ["X-Firebase-ETag": "true"])
                    #expect(tagged.headers["etag"] == node.hash)
                    #expect(tagged.body == plain.body)
                    #expect(try client.request("GET", "/a/v.json", ["if-none-match": node.hash]).status == 304)
                    #expect(try client.request("GET", "/a/v.json?callback=f").text == "/**/f(\(plain.text));")
                }
            }
            try check(json)
            #expect(gateway.gateway.metrics.readsKept.current >= 8)
            _ = try client.request("PUT", "/a/v/deep/er.json", body: "1")
            let now = try client.request("GET", "/a/v.json?format=export").text
            try check(now)
            #expect(try client.request("GET", "/a/v/deep.json").text == "{\"er\":1}")
        }
    }

    private static let bigTree: String = String(decoding: JSONWriter.encode(tree(500), form: .plain), as: UTF8.self)
}
