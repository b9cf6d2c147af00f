import TestSupport
import Testing
import Tree
import Wire

/// Checks the events of a write for listeners at, above and below its path, with merges, priorities and query windows.
@Suite struct ChangeEventTests {
    private func entry(_ operation: Tree.Operation, _ path: String, _ changes: [(String, Node)]) -> Entry {
        Entry(
            seq: 1, committedAt: 0, operation: operation, path: Path(splitting: path),
            changes: changes.map { Change(path: Path(splitting: $0.0), value: $0.1) })
    }

    private func event(_ entry: Entry, at path: String, before: String? = nil) throws -> ChangeEvent? {
        try ChangeEvent(entry, at: Path(splitting: path), before: before.map { try JSONParser.parse($0) })
    }

    @Test func aWriteAtThePath() throws {
        let write = entry(.set, "/a", [("/a", .int(1))])
        #expect(try event(write, at: "/a") == .put(.root, .int(1)))
        // The writer receives its own write as an event, though the value is unchanged.
        #expect(try event(write, at: "/a", before: "{\"a\":1}") == .put(.root, .int(1)))
    }

    @Test func writeAbove() throws {
        let write = entry(.set, "/a", [("/a", try JSONParser.parse("{\"b\":{\"c\":1}}"))])
        #expect(try event(write, at: "/a/b") == .put(.root, try JSONParser.parse("{\"c\":1}")))
        #expect(try event(write, at: "/a/b/c") == .put(.root, .int(1)))
        #expect(try event(write, at: "/a/other") == .put(.root, .null))
        // The value is unchanged, so there is no event.
        #expect(try event(write, at: "/a/b/c", before: "{\"a\":{\"b\":{\"c\":1}}}") == nil)
        #expect(try event(write, at: "/a/other", before: "{\"a\":5}") == nil)
    }

    @Test func writeBelow() throws {
        let write = entry(.set, "/a/b/c", [("/a/b/c", .int(1))])
        #expect(try event(write, at: "/") == .put(Path(splitting: "a/b/c"), .int(1)))
        #expect(try event(write, at: "/a") == .put(Path(splitting: "b/c"), .int(1)))
        #expect(try event(write, at: "/a/x") == nil)
        #expect(try event(write, at: "/a/b/c/d") == .put(.root, .null))
    }

    /// One operation is one event.
    @Test func mergeBelow() throws {
        let own = entry(.update, "/a", [("/a/b", .int(1)), ("/a/c/d", .null)])
        #expect(
            try event(own, at: "/a")
                == .patch(
                    .root,
                    [
                        Change(path: Path(splitting: "b"), value: .int(1)),
                        Change(path: Path(splitting: "c/d"), value: .null),
                    ]))
        #expect(
            try event(own, at: "/")
                == .patch(
                    Path(splitting: "a"),
                    [
                        Change(path: Path(splitting: "b"), value: .int(1)),
                        Change(path: Path(splitting: "c/d"), value: .null),
                    ]))
    }

    /// A merge above the listener changes paths at and below it.
    @Test func mergeAbove() throws {
        let merge = entry(.update, "/", [("/a/b", .int(1)), ("/a/c", .int(2)), ("/x", .int(3))])
        #expect(
            try event(merge, at: "/a")
                == .patch(
                    .root,
                    [
                        Change(path: Path(splitting: "b"), value: .int(1)),
                        Change(path: Path(splitting: "c"), value: .int(2)),
                    ]
                ))
        #expect(try event(merge, at: "/a/b") == .put(.root, .int(1)))
        #expect(try event(merge, at: "/x/deep", before: "{\"x\":{\"deep\":1}}") == .put(.root, .null))
        #expect(try event(merge, at: "/y") == nil)
    }

    @Test func priorities() throws {
        let priority = entry(.set, "/a/.priority", [("/a/.priority", .int(5))])
        #expect(try event(priority, at: "/") == .put(Path(splitting: "a/.priority"), .int(5)))
        #expect(try event(priority, at: "/a") == .put(Path(splitting: ".priority"), .int(5)))
        #expect(try event(priority, at: "/a/b") == nil)
        #expect(try event(priority, at: "/b") == nil)
    }

    /// Checks a stream of a priority alone: `/a/.priority.json`.
    @Test func listenerAtAPriority() throws {
        let path = "/a/.priority"
        #expect(
            try event(entry(.set, "/a/.priority", [("/a/.priority", .int(5))]), at: path, before: "{\"a\":1}")
                == .put(.root, .int(5)))
        let whole = entry(.set, "/a", [("/a", .int(1).withPriority(.string("p")))])
        #expect(try event(whole, at: path, before: "null") == .put(.root, .string("p")))
        #expect(try event(entry(.set, "/a/b", [("/a/b", .int(5))]), at: path, before: "null") == nil)
    }

    /// A client that applies the events has the listener's value. Random writes are compared with one client tree per
    /// listener.
    @Test(arguments: [1, 2, 3, 4, 5, 6] as [UInt64])
    func eventsMakeTheValue(seed: UInt64) {
        var random = TreeGenerator(seed: seed)
        let paths = (0..<12).map { _ in random.path(maxDepth: 3) } + [.root]
        var root = Node.null
        var values = paths.map { root[$0] }
        for seq in 1...400 as ClosedRange<Int64> {
            let isUpdate = random.random.oneIn(3)
            let base = isUpdate ? random.path(maxDepth: 2) : random.writablePath(maxDepth: 4)
            let value =
                base.namesPriority ? random.priority() : (random.random.oneIn(5) ? .null : random.tree(depth: 3))
            let changes = isUpdate ? random.changes(atMost: 4, below: base) : [Change(path: base, value: value)]
            let entry = Entry(
                seq: seq, committedAt: 0, operation: isUpdate ? .update : .set, path: base, changes: changes)
            let before = root
            for change in changes { root = root.replacing(change.path, with: change.value) }
            for (index, path) in paths.enumerated() {
                let known = random.random.oneIn(4) ? nil : before
                if let event = ChangeEvent(entry, at: path, before: known) {
                    values[index] = values[index].applying(event)
                }
                #expect(values[index] == root[path], "at \(path) after \(seq)")
            }
        }
    }

    /// A client that applies the events of a query has the query's window, with random writes.
    @Test(arguments: [1, 2, 3, 4, 5, 6] as [UInt64])
    func eventsMakeTheWindow(seed: UInt64) {
        var random = TreeGenerator(seed: seed)
        let queries = (0..<10).map { _ in random.query() }
        var node = Node.null
        var windows = queries.map { $0.select(from: node) }
        for _ in 0..<300 {
            let path = random.writablePath(maxDepth: 2)
            let value =
                path.namesPriority ? random.priority() : (random.random.oneIn(4) ? .null : random.tree(depth: 2))
            let before = node
            node = node.replacing(path, with: value)
            for (index, query) in queries.enumerated() {
                let event = ChangeEvent(from: query.select(from: before), to: query.select(from: node))
                if let event { windows[index] = windows[index].applying(event) }
                #expect(windows[index] == query.select(from: node))
            }
        }
    }

    @Test func windows() throws {
        let old = try JSONParser.parse("{\"a\":1,\"b\":2}")
        #expect(ChangeEvent(from: old, to: old) == nil)
        #expect(
            try ChangeEvent(from: old, to: JSONParser.parse("{\"a\":1,\"b\":3}")) == .put(Path(splitting: "b"), .int(3))
        )
        #expect(ChangeEvent(from: old, to: .null) == .put(.root, .null))
        #expect(ChangeEvent(from: .null, to: old) == .put(.root, old))
        // One child leaves and one enters: there is one event.
        guard case .patch(.root, let changes)? = try ChangeEvent(from: old, to: JSONParser.parse("{\"b\":2,\"c\":3}"))
        else {
            return #expect(Bool(false), "two children have changed")
        }
        #expect(Set(changes.map { "\($0.path) \($0.value.isNull)" }) == ["/a true", "/c false"])
    }
}

extension Node {
    /// Returns a client's value after an event.
    func applying(_ event: ChangeEvent) -> Node {
        switch event {
        case .put(let path, let value): replacing(path, with: value)
        case .patch(let path, let changes):
            changes.reduce(self) { $0.replacing(path.appending($1.path), with: $1.value) }
        }
    }
}

extension TreeGenerator {
    mutating func query() -> Query {
        let indexes: [Query.Index] = [.key, .value, .priority, .child(Path([key()]))]
        var query = Query(index: random.pick(indexes))
        if random.oneIn(2) { query.start = bound(query.index) }
        if random.oneIn(2) { query.end = bound(query.index) }
        if random.oneIn(2) { query.limit = random.oneIn(2) ? .first(1 + random.below(4)) : .last(1 + random.below(4)) }
        return query
    }

    private mutating func bound(_ index: Query.Index) -> Query.Bound {
        let value: Node = index == .key ? .string(key().text) : bareLeaf()
        return Query.Bound(
            value: .init(value), key: index != .key && random.oneIn(3) ? key() : nil, isInclusive: random.oneIn(2))
    }
}
