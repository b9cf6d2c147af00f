import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Checks that a table changed as `PendingChanges` describes for a range of the log equals the table of the tree at the
/// end of the range. Tests single entries with exact results, then random trees, patterns and entries.
@Suite struct PendingChangesTests {
    /// The pending work as text: ranges, then records.
    private func work(_ pending: PendingChanges) -> Set<String> {
        var found: Set<String> = []
        pending.visit(
            ranges: { range in
                let keys = "\(range.keys.map(\.text))"
                found.insert(range.reloaded.map { "reload \(keys) @\($0.seq)" } ?? "empty \(keys)")
            },
            records: { keys, record in
                switch record {
                case .known(let node, let stamp):
                    let json = String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self)
                    found.insert("\(keys.map(\.text)) = \(json) @\(stamp.seq)")
                case .unknown(let stamp): found.insert("\(keys.map(\.text)) ? @\(stamp.seq)")
                }
            })
        return found
    }

    private func entry(_ seq: Int64, _ changes: [(String, String)], isBulk: Bool = false) throws -> Entry {
        Entry(
            seq: seq, committedAt: 1_000 + seq, operation: .update,
            path: isBulk ? Path(splitting: changes[0].0) : .root,
            changes: try changes.map { Change(path: Path(splitting: $0.0), value: try node($0.1)) }, isBulk: isBulk)
    }

    /// Checks one entry for a table whose content is unknown.
    @Test(
        arguments: [
            // At a record, and below it.
            ("/a/{k}", [("/a/x", #"{"n":1}"#)], [#"["x"] = {"n":1} @1"#], false),
            ("/a/{k}", [("/a/x", "5")], [#"["x"] = 5 @1"#], false),
            ("/a/{k}", [("/a/x", "null")], [#"["x"] = null @1"#], false),
            ("/a/{k}", [("/a/x/n", "1")], [#"["x"] ? @1"#], true),
            ("/a/{k}", [("/a/x/n", "null")], [#"["x"] ? @1"#], true),
            ("/a/{k}", [("/a/x/.priority", "1")], [#"["x"] ? @1"#], true),
            ("/a/{k}", [("/a/x/n", "1"), ("/a/y", "2")], [#"["x"] ? @1"#, #"["y"] = 2 @1"#], true),
            // Outside the records.
            ("/a/{k}", [("/b/x", "1")], [], false),
            ("/a/{k}/b", [("/a/x/c", "1")], [], false),
            ("/a/{k}/b", [("/a/x/b", "1")], [#"["x"] = 1 @1"#], false),
            ("/a/{k}/b", [("/a/x/b/c/d", "1")], [#"["x"] ? @1"#], true),
            // Above the records.
            (
                "/a/{k}", [("/a", #"{"x":1,"y":{"z":2}}"#)], ["empty []", #"["x"] = 1 @1"#, #"["y"] = {"z":2} @1"#],
                false
            ),
            ("/a/{k}", [("/a", "null")], ["empty []"], false),
            ("/a/{k}", [("/a", "\"leaf\"")], ["empty []"], false),
            ("/a/{k}", [("/", #"{"a":{"x":1},"b":2}"#)], ["empty []", #"["x"] = 1 @1"#], false),
            ("/a/{k}", [("/", "null")], ["empty []"], false),
            ("/a/{k}/b", [("/a", #"{"x":{"b":1},"y":{"c":2}}"#)], ["empty []", #"["x"] = 1 @1"#], false),
            ("/a/{k}/b", [("/a/x", #"{"c":1}"#)], [#"empty ["x"]"#], false),
            ("/{j}/{k}", [("/x", #"{"y":1}"#)], [#"empty ["x"]"#, #"["x", "y"] = 1 @1"#], false),
            // Priorities above the records do not belong to them.
            ("/a/{k}", [("/a/.priority", "1")], [], false),
            ("/{k}", [("/.priority", "1")], [], false),
            ("/{j}/{k}", [("/x/.priority", "1")], [], false),
        ] as [(String, [(String, String)], [String], Bool)])
    func oneEntry(pattern: String, changes: [(String, String)], expected: [String], needsTree: Bool) throws {
        var pending = PendingChanges(try PathPattern(pattern))
        #expect(pending.isEmpty)
        pending.take(try entry(1, changes))
        #expect(work(pending) == Set(expected))
        #expect(pending.needsTree == needsTree)
        #expect(pending.isEmpty == expected.isEmpty)
        pending.removeAll()
        #expect(pending.isEmpty && !pending.needsTree && work(pending) == [])
    }

    /// Checks that later changes replace earlier ones.
    @Test(
        arguments: [
            ([[("/a/x", "1")], [("/a/x", "2")]], [#"["x"] = 2 @2"#]),
            ([[("/a/x", #"{"n":1}"#)], [("/a/x/m", "2")]], [#"["x"] = {"m":2,"n":1} @2"#]),
            ([[("/a/x", #"{"n":1}"#)], [("/a/x/n", "null")]], [#"["x"] = null @2"#]),
            ([[("/a/x/n", "1")], [("/a/x", "2")]], [#"["x"] = 2 @2"#]),
            ([[("/a/x/n", "1")], [("/a/x/m", "2")]], [#"["x"] ? @2"#]),
            ([[("/a/x", "1")], [("/a", "null")]], ["empty []"]),
            ([[("/a", "null")], [("/a/x/n", "1")]], ["empty []", #"["x"] = {"n":1} @2"#]),
            (
                [[("/a", #"{"x":{"n":1}}"#)], [("/a/x/n", "2")], [("/a/y/z", "3")]],
                ["empty []", #"["x"] = {"n":2} @2"#, #"["y"] = {"z":3} @3"#]
            ),
            ([[("/a/x/n", "1")], [("/", "null")]], ["empty []"]),
        ] as [([[(String, String)]], [String])])
    func severalEntries(entries: [[(String, String)]], expected: [String]) throws {
        var pending = PendingChanges(try PathPattern("/a/{k}"))
        for (index, changes) in entries.enumerated() { pending.take(try entry(Int64(index + 1), changes)) }
        #expect(work(pending) == Set(expected))
    }

    /// Checks that records that a bulk load may have changed are read from the tree, because the load's values are in
    /// its parts.
    @Test(arguments: [
        ("/a/{k}", "/a/x", [#"["x"] ? @1"#]), ("/a/{k}", "/a/x/n", [#"["x"] ? @1"#]),
        ("/a/{k}", "/a", ["reload [] @1"]),
        ("/a/{k}", "/", ["reload [] @1"]),
        ("/a/{k}", "/b", []), ("/{j}/{k}", "/x", [#"reload ["x"] @1"#]), ("/{j}/{k}", "/", ["reload [] @1"]),
        ("/a/{k}/b", "/a/x", [#"["x"] ? @1"#]),
    ])
    func aLoad(pattern: String, location: String, expected: [String]) throws {
        var pending = PendingChanges(try PathPattern(pattern))
        pending.take(try entry(1, [(location, "null")], isBulk: true))
        #expect(work(pending) == Set(expected))
        #expect(pending.needsTree == !expected.isEmpty)
    }

    @Test func reloadedRowsAreNotReportedOneByOne() throws {
        var pending = PendingChanges(try PathPattern("/{j}/{k}"))
        pending.take(try entry(1, [("/x", "null")], isBulk: true))
        pending.take(try entry(2, [("/x/y", "1"), ("/z/y", "2")]))
        pending.take(try entry(3, [("/x/y/deep", "1")]))
        #expect(work(pending) == [#"reload ["x"] @1"#, #"["z", "y"] = 2 @2"#])
        pending.take(try entry(4, [("/", "null")], isBulk: true))
        #expect(work(pending) == ["reload [] @4"])
        pending.take(try entry(5, [("/", "null")]))
        #expect(work(pending) == ["reload [] @4"])
    }

    @Test func rereadingAsksTheTreeWhateverIsKnown() throws {
        var pending = PendingChanges(try PathPattern("/a/{k}"))
        pending.take(try entry(1, [("/a/x", "1")]))
        pending.reread([Key("x")], Stamp(seq: 9, committedAt: nil))
        pending.reread([Key("y")], Stamp(seq: 9, committedAt: nil))
        #expect(work(pending) == [#"["x"] ? @9"#, #"["y"] ? @9"#] && pending.needsTree)
        pending.reloadEverything(Stamp(seq: 9, committedAt: nil))
        #expect(work(pending) == ["reload [] @9"] && pending.needsTree)
    }

    // MARK: Against a model

    static let patterns = [
        "/{k}", "/a/{k}", "/{k}/a", "/{j}/{k}", "/a/{k}/b", "/a/{j}/{k}", "/{j}/a/{k}", "/a/{j}/b/{k}", "/{i}/{j}/{k}",
        "/a/b/{k}/0/a",
    ]

    @Test(arguments: patterns) func aTableFollowsTheTree(pattern: String) throws {
        let pattern = try PathPattern(pattern)
        for seed in UInt64(1)...60 {
            var generator = TreeGenerator(seed: seed)
            var root = tree(&generator, depth: 4)
            var table = records(of: root, pattern)
            var seq: Int64 = 0
            for _ in 0..<6 {
                var pending = PendingChanges(pattern)
                for _ in 0..<(1 + generator.random.below(6)) {
                    seq += 1
                    let entry = randomEntry(seq, &generator)
                    for change in entry.changes { root = root.replacing(change.path, with: change.value) }
                    if entry.isBulk {
                        // The content of the parts is only in the tree.
                        root = root.replacing(entry.path, with: tree(&generator, depth: 3))
                    }
                    pending.take(entry)
                }
                apply(pending, root, pattern, to: &table, upTo: seq)
                let wanted = records(of: root, pattern)
                #expect(table == wanted, "\(pattern), seed \(seed), seq \(seq)")
                guard table == wanted else { return }
            }
        }
    }

    private func apply(
        _ pending: PendingChanges, _ root: Node, _ pattern: PathPattern, to table: inout [[Key]: Node], upTo seq: Int64
    ) {
        let all = records(of: root, pattern)
        var changed = table
        var asked = false
        pending.visit(
            ranges: { range in
                for keys in changed.keys where keys.starts(with: range.keys) { changed[keys] = nil }
                guard range.reloaded != nil else { return }
                asked = true
                for (keys, value) in all where keys.starts(with: range.keys) { changed[keys] = value }
            },
            records: { keys, record in
                switch record {
                case .known(let value, let stamp):
                    changed[keys] = value.isNull ? nil : value
                    #expect(stamp.seq <= seq && stamp.committedAt == 1_000 + stamp.seq)
                case .unknown:
                    asked = true
                    changed[keys] = all[keys]
                }
            })
        // The tree may be read only if this is set.
        #expect(!asked || pending.needsTree)
        table = changed
    }

    private func randomEntry(_ seq: Int64, _ generator: inout TreeGenerator) -> Entry {
        if generator.random.oneIn(12) {
            let location = path(&generator, atMost: 3)
            return Entry(
                seq: seq, committedAt: 1_000 + seq, operation: .load, path: location,
                changes: [Change(path: location, value: .null)],
                isBulk: true)
        }
        var changes: [Change] = []
        for _ in 0..<(1 + generator.random.below(3)) {
            var location = path(&generator, atMost: 5)
            var value = generator.random.oneIn(4) ? Node.null : tree(&generator, depth: max(0, 4 - location.depth))
            if generator.random.oneIn(10) {
                location = location.appending(.priority)
                value = generator.random.oneIn(3) ? .null : generator.priority()
            }
            guard !changes.contains(where: { $0.path.contains(location) || location.contains($0.path) }) else {
                continue
            }
            changes.append(Change(path: location, value: value))
        }
        return Entry(seq: seq, committedAt: 1_000 + seq, operation: .update, path: .root, changes: changes)
    }

    /// Uses few keys, so that entries overlap.
    private func path(_ generator: inout TreeGenerator, atMost depth: Int) -> Path {
        Path((0..<generator.random.below(depth + 1)).map { _ in Key(generator.random.pick(["a", "b", "0"])) })
    }

    private func tree(_ generator: inout TreeGenerator, depth: Int) -> Node {
        if depth == 0 || generator.random.oneIn(6) { return generator.leaf() }
        let children = ["a", "b", "0"].filter { _ in generator.random.oneIn(2) }.map { key in
            (Key(key), tree(&generator, depth: depth - 1))
        }
        return Node(children: children, priority: generator.random.oneIn(5) ? generator.priority() : .null)
    }
}
