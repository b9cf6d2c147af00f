import Engine
import LogStore
import Rules
import TestSupport
import Testing
import Tree

/// Reading a little of a tree that is in the database.
@Suite struct PartsTests {
    /// Every place of random trees, and places where nothing is, against the tree itself.
    @Test(arguments: 0..<4) func placesAndPartsAreThoseOfTheTree(seed: UInt64) throws {
        var generator = TreeGenerator(seed: seed)
        let tree = Node(children: (0..<4).map { (Key("t\($0)"), generator.tree(depth: 4)) })
        try withTree(tree) { connection, namespace in
            var places: [Path] = [.root, Self.path("nowhere"), Self.path("nowhere/at/all")]
            Self.addPlaces(tree, .root, to: &places)
            _ = try connection.readingParts(of: namespace, named: "test") { (_, _) throws(LogStoreError) in
                for path in places {
                    let node = tree[path]
                    guard let place = try connection.readPlace(namespace, path, mostBytes: 1 << 20) else {
                        Issue.record("\(path) is not known")
                        continue
                    }
                    #expect(Self.isSketch(place, of: node), "\(path): \(place) of \(node)")
                    let part = try connection.readPart(namespace, path, mostRows: 10_000, mostBytes: 1 << 20)
                    #expect(part == node, "\(path)")
                    let rows = node.rowCount
                    if rows > 1 {
                        let less = try connection.readPart(namespace, path, mostRows: rows - 1, mostBytes: 1 << 20)
                        #expect(less == nil, "\(path)")
                        #expect(
                            try connection.readPlace(namespace, path, mostBytes: 1 << 20) == place, "the snapshot lives"
                        )
                    }
                }
            }
        }
    }

    @Test func neighboursAreNoPartOfAPlace() throws {
        let tree = try JSONParser.parse(
            """
            {"a": {"-x": 1, ".priority": 5}, "a!": 1, "a-b": {"c": 2}, "a0": 3, "b": {".value": 4, ".priority": 6}, "c": "text"}
            """)
        try withTree(tree) { connection, namespace in
            let read = try connection.readingParts(of: namespace, named: "test") {
                (head, rules) throws(LogStoreError) in
                #expect(head == 1 && rules == 0)
                let place = try connection.readPlace(namespace, Self.path("a"), mostBytes: 999)
                #expect(place.map { Self.isSketch($0, of: tree[Self.path("a")]) && $0.priority == .int(5) } == true)
                #expect(try connection.readPlace(namespace, Self.path("b"), mostBytes: 999) == tree[Self.path("b")])
                #expect(
                    try connection.readPart(namespace, Self.path("a"), mostRows: 9, mostBytes: 999)
                        == tree[Self.path("a")])
                #expect(
                    try connection.readPart(namespace, Self.path("b"), mostRows: 9, mostBytes: 999)
                        == tree[Self.path("b")])
                #expect(try connection.readPart(namespace, Self.path("c"), mostRows: 9, mostBytes: 5) == nil)
                #expect(try connection.readPlace(namespace, Self.path("c"), mostBytes: 5) == nil)
                return true
            }
            #expect(read == true)
            #expect(try connection.readingParts(of: namespace, named: "other") { (_, _) in true } == nil)
            #expect(try connection.readingParts(of: namespace + 1, named: "test") { (_, _) in true } == nil)
        }
    }

    @Test func aLeafIsTheWholeTree() throws {
        try withTree(.string("locked")) { connection, namespace in
            let places = try connection.readingParts(of: namespace, named: "test") { (_, _) throws(LogStoreError) in
                #expect(try connection.readPlace(namespace, .root, mostBytes: 999) == .string("locked"))
                #expect(try connection.readPart(namespace, .root, mostRows: 1, mostBytes: 999) == .string("locked"))
                #expect(try connection.readPlace(namespace, Self.path("a"), mostBytes: 999) == .null)
                return true
            }
            #expect(places == true)
        }
    }

    /// What is stored compressed is not taken for small.
    @Test func aCompressedTextIsAsLongAsItIs() throws {
        let text = Node.string(String(repeating: "x", count: 400_000))
        try withTree(Node(children: [(Key("a"), text), (Key("b"), .int(1))])) { connection, namespace in
            let places = try connection.readingParts(of: namespace, named: "test") { (_, _) throws(LogStoreError) in
                #expect(try connection.readPart(namespace, .root, mostRows: 9, mostBytes: 300_000) == nil)
                #expect(try connection.readPart(namespace, .root, mostRows: 9, mostBytes: 500_000) != nil)
                #expect(try connection.readPlace(namespace, Self.path("a"), mostBytes: 300_000) == nil)
                return true
            }
            #expect(places == true)
        }
    }

    private func withTree(_ tree: Node, _ body: (LogConnection, Int64) throws -> Void) throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            let sink = CollectingSink()
            namespace.submit(
                Write(.set(.root, tree), operation: .set, byteCount: 0, auth: .admin), to: sink, token: 0)
            try #require(namespace.waitFor(1))
            try body(try LogConnection(url), namespace.id)
        }
    }

    private static func path(_ text: String) -> Path { Path(splitting: text) }

    private static func addPlaces(_ node: Node, _ path: Path, to places: inout [Path]) {
        guard case .branch(let branch) = node else { return }
        for entry in branch.children where path.depth < 6 {
            let place = path.appending(entry.key)
            places.append(place)
            places.append(place.appending(Key("none")))
            addPlaces(entry.node, place, to: &places)
        }
    }

    /// A leaf as it is; of a branch its priority, and nothing that it doesn't have.
    private static func isSketch(_ place: Node, of node: Node) -> Bool {
        guard case .branch(let branch) = node, case .branch(let sketch) = place else { return place == node }
        return sketch.priority == branch.priority
            && sketch.children.allSatisfy { entry in branch.children[entry.key].map { !$0.isNull } ?? false }
    }
}
