import Testing

@testable import Tree

/// Checks the changes that turn one tree into another.
struct TreeDifferenceProperties {
    private func check(_ old: Node, _ new: Node, _ comment: Comment) {
        let changes = TreeDifference.changes(from: old, to: new)
        let after = old.replacing(changes)
        #expect(after == new, comment)
        #expect(after.hash == new.hash, comment)
        #expect(json(after) == json(new), comment)
        #expect(Change.overlap(in: changes) == nil, comment)
        #expect(changes.isEmpty == (old == new), comment)
        #expect(ApplicationOrder.sorted(changes) == changes, comment)
        // No change is without effect, and the log's text of the changes has the same effect.
        for change in changes { #expect(old[change.path] != change.value, comment) }
        if let read = try? ChangeCodec.decode(ChangeCodec.encode(changes)) {
            #expect(old.replacing(read) == new, comment)
        } else {
            Issue.record("the changes can't be read", sourceLocation: #_sourceLocation)
        }
    }

    private func changed(_ node: Node, _ generator: inout TreeGenerator) -> Node {
        var node = node
        for _ in 0..<(1 + generator.random.below(4)) {
            let path = generator.path(maxDepth: 4)
            switch generator.random.below(5) {
            case 0: node = node.replacing(path, with: .null)
            case 1: node = node.replacing(path.appending(.priority), with: generator.priority())
            case 2: node = node.replacing(path.appending(.priority), with: .null)
            case 3: node = node.replacing(path, with: generator.leaf())
            default: node = node.replacing(path, with: generator.tree(depth: 2))
            }
        }
        return node
    }

    @Test(arguments: 1...8 as ClosedRange<UInt64>) func `changes make the new tree`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        for round in 0..<250 {
            let old = generator.tree(depth: 4)
            let new = generator.random.oneIn(5) ? generator.tree(depth: 4) : changed(old, &generator)
            check(old, new, "seed \(seed), round \(round): \(json(old)) to \(json(new))")
            check(new, old, "seed \(seed), round \(round): \(json(new)) to \(json(old))")
            // The same tree, with which nothing is shared.
            if let copy = try? JSONParser.parse(json(new)) {
                #expect(TreeDifference.changes(from: new, to: copy).isEmpty)
                #expect(TreeDifference.changes(from: old, to: copy) == TreeDifference.changes(from: old, to: new))
            }
        }
    }

    @Test(arguments: 1...4 as ClosedRange<UInt64>) func `changes of a range leave the rest`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed &+ 100)
        for round in 0..<250 {
            let old = generator.tree(depth: 3)
            let new = changed(old, &generator)
            let first = generator.random.oneIn(3) ? nil : generator.key()
            let last = generator.random.oneIn(3) ? nil : generator.key()
            let changes = TreeDifference.changes(from: old, to: new, keysFrom: first, through: last)
            let after = old.replacing(changes)
            let here: Comment = "seed \(seed), round \(round)"
            #expect(
                after.restricted(toKeysFrom: first, through: last)
                    == new.restricted(toKeysFrom: first, through: last), here)
            for change in changes {
                guard let key = change.path.keys.first else {
                    Issue.record("a change of the root")
                    continue
                }
                #expect((first ?? key) <= key && key <= (last ?? key), here)
            }
            guard case .branch(let branch) = old else { continue }
            for entry in branch.children where !((first ?? entry.key) <= entry.key && entry.key <= (last ?? entry.key))
            {
                #expect(after.child(entry.key) == entry.node, here)
            }
        }
    }

    @Test(arguments: [
        // (old, new, changes)
        (#"{"a":1,"b":2}"#, #"{"a":1,"b":3}"#, #"{"/b":3}"#),
        (#"{"a":1,"b":2}"#, #"{"a":1}"#, #"{"/b":null}"#),
        (#"{"a":1,"b":2}"#, #"{"a":3,"b":4}"#, #"{"/":{"a":3,"b":4}}"#),
        (#"{"x":{"a":1},"y":1}"#, #"{"x":{"b":1},"y":1}"#, #"{"/x":{"b":1}}"#),
        (#"{"x":{"a":1,".priority":5},"y":1}"#, #"{"x":{"b":1,".priority":5},"y":1}"#, #"{"/x/b":1,"/x/a":null}"#),
        (#"{"x":{"a":1},"y":1}"#, #"{"x":5,"y":1}"#, #"{"/x":5}"#),
        (#"{"x":5,"y":1}"#, #"{"x":{"a":1},"y":1}"#, #"{"/x":{"a":1}}"#),
        (#"{"x":{"a":1},"y":1}"#, #"{"x":{"a":1,".priority":2},"y":1}"#, #"{"/x/.priority":2}"#),
        (#"{"x":5}"#, #"{"x":{".value":5,".priority":2}}"#, #"{"/x/.priority":2}"#),
        (#"{".value":5,".priority":2}"#, "5", #"{"/.priority":null}"#),
        (
            #"{"x":{".value":5,".priority":2}}"#, #"{"x":{".value":6,".priority":2}}"#,
            #"{"/x":{".value":6,".priority":2}}"#
        ),
        ("null", #"{"a":1}"#, #"{"/":{"a":1}}"#), (#"{"a":1}"#, "null", #"{"/":null}"#), ("1", "1", "{}"),
        // The store distinguishes all of these.
        (#"{"a":0,"b":1}"#, #"{"a":-0.0,"b":1}"#, #"{"/a":-0.0}"#),
        (#"{"a":9007199254740993,"b":1}"#, #"{"a":9007199254740994,"b":1}"#, #"{"/a":9007199254740994}"#),
        (#"{"a":1000000000000000000,"b":1}"#, #"{"a":1e18,"b":1}"#, #"{"/a":1e+18}"#),
        (#"{"a":1,"b":1}"#, #"{"a":1.0,"b":1}"#, "{}"), (#"{"a":1,"b":1}"#, #"{"a":"1","b":1}"#, #"{"/a":"1"}"#),
        (#"{"a":true,"b":1}"#, #"{"a":1,"b":1}"#, #"{"/a":1}"#),
        ("{\"\u{E9}\":1,\"b\":1}", "{\"e\u{301}\":1,\"b\":1}", "{\"/e\u{301}\":1,\"/\u{E9}\":null}"),
    ]) func `the changes are the fewest`(old: String, new: String, changes: String) throws {
        let found = TreeDifference.changes(from: try node(old), to: try node(new))
        #expect(String(decoding: ChangeCodec.encode(found), as: UTF8.self) == changes)
    }

    /// The walk of the differences passes shared slabs, also if others before them were divided, joined or removed.
    @Test func `shared parts cost nothing`() {
        let many = Node(
            children: (0..<200_000).map { number in
                (Key("k\(number)"), Node(children: [(Key("a"), .int(Int64(number))), (Key("b"), .bool(true))]))
            })
        let inserted = (0..<40).map { Change(path: path("k100\($0)x"), value: .int(1)) }
        let changed = many.replacing(inserted).replacing(path("k5"), with: .null)
            .replacing(path("k77777/a"), with: .int(0))
            .replacingChildren([], removing: [KeyGap(after: Key("k12"), before: Key("k1200"))])
        let clock = ContinuousClock()
        var changes: [Change] = []
        let time = clock.measure { for _ in 0..<100 { changes = TreeDifference.changes(from: many, to: changed) } }
        #expect(many.replacing(changes) == changed)
        #expect(changes.count < 300, "\(changes.count)")
        // A comparison of all children takes more than a tenth of a second.
        #expect(time < .seconds(5))
    }

    /// 32 levels, each with siblings.
    @Test func `deep trees`() {
        var old = Node.int(1)
        for _ in 0..<32 { old = Node(children: [(Key("d"), old), (Key("e"), .bool(true))], priority: .int(3)) }
        let place = Path([Key](repeating: Key("d"), count: 32))
        let new = old.replacing(place, with: .int(2))
        #expect(TreeDifference.changes(from: old, to: new) == [Change(path: place, value: .int(2))])
        let other = old.replacing(place.prefix(20).appending(.priority), with: .null)
        #expect(
            TreeDifference.changes(from: old, to: other)
                == [Change(path: place.prefix(20).appending(.priority), value: .null)])
    }
}
