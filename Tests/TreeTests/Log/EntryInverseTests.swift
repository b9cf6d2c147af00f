import Testing
import Tree

/// The inverse of an entry, applied after it, makes the tree before it.
struct EntryInverseTests {
    private func inverse(_ before: String, _ texts: [(String, String)]) throws -> EntryInverse {
        let old = try node(before)
        let changes = ApplicationOrder.sorted(try texts.map { Change(path: path($0.0), value: try node($0.1)) })
        let entry = Entry(seq: 1, committedAt: 0, operation: .update, path: .root, changes: changes)
        let new = old.replacing(changes)
        let inverse = EntryInverse(of: entry, from: old, to: new)
        #expect(new.replacing(inverse.changes) == old)
        return inverse
    }

    private func shown(_ changes: [Change]) -> [String] { changes.map { "\($0.path) \(json($0.value))" } }

    @Test(
        arguments: [
            // A value that was not there, one that was, and one that went.
            (#"{"k":1}"#, [("a/b", "2")], ["/a/b null"]),
            (#"{"a":1}"#, [("a", "2")], ["/a 1"]),
            (#"{"a":{"b":1,"c":2}}"#, [("a", "null")], [#"/a {"b":1,"c":2}"#]),
            // Several paths; what did not change stays out.
            (
                #"{"a":1,"b":2,"c":3}"#, [("a", "null"), ("b", "5"), ("c", "3"), ("d", "4")],
                ["/a 1", "/b 2", "/d null"]
            ),
            // A leaf that became a branch comes back with its priority.
            (#"{"a":{".value":1,".priority":7}}"#, [("a/b/c", "2")], [#"/a {".value":1,".priority":7}"#]),
            (
                #"{"a":{".value":1,".priority":7}}"#, [("a/b", "2"), ("a/.priority", "8")],
                [#"/a {".value":1,".priority":7}"#]
            ),
            // Nodes that went with their last child come back with their priorities.
            (
                #"{"k":1,"a":{"b":{"c":1,".priority":2},".priority":3}}"#, [("a/b/c", "null")],
                ["/a/b/c 1", "/a/.priority 3", "/a/b/.priority 2"]
            ),
            (#"{"a":{"b":1}}"#, [("a/.priority", "4")], ["/a/.priority null"]),
            (#"{"a":{"b":1,".priority":4}}"#, [("a/.priority", "5")], ["/a/.priority 4"]),
            (#"1"#, [("", "null")], ["/ 1"]),
            (#"1"#, [("a", "2")], ["/ 1"]),
            // Nothing changed.
            (#"{"a":1}"#, [("a", "1"), ("x", "null"), ("y/.priority", "1")], []),
        ] as [(String, [(String, String)], [String])])
    func `changes`(before: String, texts: [(String, String)], expected: [String]) throws {
        #expect(try shown(inverse(before, texts).changes) == expected)
    }

    @Test func `what the entry made may have been given a priority since`() throws {
        let watched = try inverse(#"{"k":1}"#, [("a/b/c", "2")]).watched
        #expect(watched.map(\.description) == ["/a/.priority", "/a/b/.priority", "/a/b/c"])
    }

    @Test func `the new entry's path and operation`() throws {
        let one = try inverse(#"{"k":1}"#, [("a/b", "2")])
        #expect(one.path == path("a/b") && one.operation == .remove)
        #expect(try inverse(#"{"a":1}"#, [("a", "2")]).operation == .set)
        let several = try inverse(#"{"a":{"x":{"n":1},"y":{"n":2}}}"#, [("a/x/n", "5"), ("a/y/n", "6")])
        #expect(several.path == path("a") && several.operation == .update)
        #expect(several.writtenRows == 2 && several.summary.changed.firstPaths == ["/a/x/n", "/a/y/n"])
    }

    /// An entry in parts does not have all of its changes.
    @Test func `entries in parts`() throws {
        let old = try node(#"{"a":{"x":1,"y":{"z":2}},"k":1}"#)
        let new = try node(#"{"a":{"x":1,"y":{"z":3,"w":4},"v":{"u":5}},"k":1}"#)
        let load = { (changes: [Change]) in
            EntryInverse(
                of: Entry(seq: 1, committedAt: 0, operation: .load, path: path("a"), changes: changes, isBulk: true),
                from: old, to: new)
        }
        #expect(shown(load([]).changes) == ["/a/y/z 2", "/a/v null", "/a/y/w null"])
        #expect(shown(load([Change(path: path("a"), value: .null)]).changes) == [#"/a {"x":1,"y":{"z":2}}"#])
    }

    @Test func `too many paths of an entry in parts are one`() throws {
        let wide = Node(children: (0..<6_000).map { (Key("k\($0)"), Node.int(1)) })
        let entry = Entry(seq: 1, committedAt: 0, operation: .load, path: path("a"), changes: [], isBulk: true)
        let kept = Node(children: [(Key("old"), .int(1))])
        let old = Node.null.replacing(path("a"), with: kept)
        let new = Node.null.replacing(path("a"), with: wide.replacing(path("old"), with: .int(1)))
        #expect(shown(EntryInverse(of: entry, from: old, to: new).changes) == [#"/a {"old":1}"#])
    }

    /// Any entry on any tree.
    @Test(arguments: 0..<400 as Range<UInt64>)
    func `any entry is undone`(seed: UInt64) throws {
        var generator = TreeGenerator(seed: seed)
        let old = generator.tree(depth: 4)
        var changes: [Change] = []
        for _ in 0..<6 {
            var location = generator.path(maxDepth: 3)
            let isPriority = generator.random.oneIn(3)
            if isPriority { location.append(.priority) }
            if changes.contains(where: { $0.path.contains(location) || location.contains($0.path) }) { continue }
            let value = generator.random.oneIn(3) ? Node.null : generator.tree(depth: 2)
            changes.append(Change(path: location, value: isPriority ? generator.priority() : value))
        }
        let new = old.replacing(ApplicationOrder.sorted(changes))
        for isBulk in [false, true] {
            let entry = Entry(
                seq: 1, committedAt: 0, operation: .update, path: .root, changes: isBulk ? [] : changes, isBulk: isBulk)
            let inverse = EntryInverse(of: entry, from: old, to: new)
            #expect(new.replacing(inverse.changes) == old, "seed \(seed), bulk \(isBulk)")
            #expect(Change.overlap(in: inverse.changes) == nil, "seed \(seed)")
        }
    }

    @Test func `the top-level node of an entry`() throws {
        let entry = { (paths: [String], isBulk: Bool) in
            Entry(
                seq: 1, committedAt: 0, operation: .update, path: path("a"),
                changes: paths.map { Change(path: path($0), value: .int(1)) }, isBulk: isBulk)
        }
        #expect(entry(["a/b", "a/c/d"], false).topLevelPath == path("a"))
        #expect(entry([], true).topLevelPath == path("a"))
        #expect(entry(["a/b", "b"], false).topLevelPath == nil)
        #expect(entry([""], false).topLevelPath == nil)
        #expect(entry([".priority"], false).topLevelPath == nil)
    }
}
