import Testing
import Tree

@testable import ClientCore

/// Checks that with many different queries at one path a change visits only the views that it alters. The visits are
/// counted, not timed.
@Suite struct ManyQueriesTests {
    private static let count = 300
    private let list = Path([Key("rows")])
    private let tree = SyncTree()

    private func key(_ number: Int) -> Key { Key("row\(number)") }

    private func row(_ number: Int, _ text: String = "a") -> Node {
        Node(children: [(Key("owner"), .string("user\(number)")), (Key("text"), .string(text))])
    }

    private func spec(_ number: Int, _ limit: Query.Limit?) -> QuerySpec {
        let owner = Query.Bound(value: .init(.string("user\(number)")))
        return QuerySpec(
            path: list, query: Query(index: .child(Path([Key("owner")])), start: owner, end: owner, limit: limit))
    }

    private func registration(_ number: Int, _ spec: QuerySpec) -> Registration {
        Registration(id: RegistrationID(rawValue: UInt64(number)), spec: spec, kinds: [.value, .childChanged])
    }

    /// Loads one query for each row. Returns their tags.
    private func load(_ limit: Query.Limit?) -> [ListenTag] {
        (0..<Self.count).compactMap { number in
            let spec = spec(number, limit)
            let effects = tree.add(registration(number, spec))
            guard case .start(_, let tag?) = effects.listens.first else { return nil }
            let events = tree.applyServer(Node(children: [(key(number), row(number))]), at: list, tag: tag).events
            #expect(events.count == 1)
            _ = tree.completeListen(spec, tag: tag)
            return tag
        }
    }

    private func updates(of step: () -> Void) -> Int {
        let before = tree.updates
        step()
        return tree.updates - before
    }

    @Test(arguments: [nil, .last(1)] as [Query.Limit?]) func loadingLooksAtEachOnly(limit: Query.Limit?) {
        // One update each for the creation, the data and the completion.
        let loaded = updates { #expect(load(limit).count == Self.count) }
        #expect(loaded <= 3 * Self.count)
    }

    @Test(arguments: [nil, .last(1)] as [Query.Limit?]) func changesAndWritesLookAtOne(limit: Query.Limit?) {
        let tags = load(limit)
        let path = list.appending(key(7)).appending(Key("text"))
        let changed = updates {
            #expect(tree.applyServer(.string("b"), at: path, tag: tags[7]).events.count == 2)
        }
        #expect(changed == 1)
        let content = PendingWrite.Content.overwrite(.string("c"))
        let write = PendingWrite(id: WriteID(rawValue: 1), path: path, content: content)
        let written = updates {
            #expect(tree.apply(write, estimate: content).events.count == 2)
            #expect(tree.acknowledge(write.id, isRefused: true).events.count == 2)
        }
        #expect(written == 2)
        // The row moves from one query to another.
        let owner = PendingWrite.Content.overwrite(row(8, "d"))
        let other = PendingWrite(id: WriteID(rawValue: 2), path: list.appending(key(7)), content: owner)
        #expect(updates { _ = tree.apply(other, estimate: owner) } == 2)
    }

    @Test(arguments: [nil, .last(1)] as [Query.Limit?]) func belowAListenerToAllTheSame(limit: Query.Limit?) {
        let all = Registration(id: RegistrationID(rawValue: 9999), spec: QuerySpec(path: list), kinds: .value)
        _ = tree.add(all)
        let rows = (0..<Self.count).map { (key($0), row($0)) }
        _ = tree.applyServer(Node(children: rows), at: list, tag: nil)
        for number in 0..<Self.count {
            #expect(tree.add(registration(number, spec(number, limit))).events.map(\.node.childCount) == [1])
        }
        let path = list.appending(key(7)).appending(Key("text"))
        let changed = updates { #expect(tree.applyServer(.string("b"), at: path, tag: nil).events.count == 3) }
        #expect(changed == 2)
        // Unchanged data that the server sends again is compared once.
        let again = updates {
            let rows = rows.map { $0.0 == key(7) ? ($0.0, row(7, "b")) : ($0.0, row(Int($0.0.text.dropFirst(3)) ?? 0)) }
            #expect(tree.applyServer(Node(children: rows), at: list, tag: nil).events.isEmpty)
        }
        #expect(again == 0)
    }

    /// The path's own priority is not one of the children by which the queries affected by a change are found.
    @Test func thePriorityOfThePathItselfIsShown() {
        let all = Registration(id: RegistrationID(rawValue: 9999), spec: QuerySpec(path: list), kinds: .value)
        _ = tree.add(all)
        let rows = Node(children: (0..<Self.count).map { (key($0), row($0)) })
        _ = tree.applyServer(rows, at: list, tag: nil)
        for number in 0..<Self.count { _ = tree.add(registration(number, spec(number, nil))) }
        let location = list.appending(.priority)
        #expect(
            tree.applyServer(.int(5), at: location, tag: nil).events.map(\.node) == [rows.withPriority(.int(5))])
        let content = PendingWrite.Content.overwrite(.int(6))
        let write = PendingWrite(id: WriteID(rawValue: 1), path: location, content: content)
        #expect(tree.apply(write, estimate: content).events.map(\.node) == [rows.withPriority(.int(6))])
        #expect(tree.acknowledge(write.id, isRefused: true).events.map(\.node) == [rows.withPriority(.int(5))])
    }

    /// A child after the last one of a full limit does not concern the query.
    @Test func limitsThatAreReachedLookNoFurther() {
        _ = tree.add(Registration(id: RegistrationID(rawValue: 9999), spec: QuerySpec(path: list), kinds: .value))
        let keys = (0..<Self.count).map { Key("k\(1000 + $0)") }
        _ = tree.applyServer(Node(children: keys.map { ($0, .int(1)) }), at: list, tag: nil)
        for number in 1...100 {
            let query = Query(index: .value, limit: number % 2 == 0 ? .first(number) : .last(number))
            _ = tree.add(registration(number, QuerySpec(path: list, query: query)))
        }
        func updates(_ index: Int) -> Int {
            self.updates { _ = tree.applyServer(.bool(true), at: list.appending(keys[index]), tag: nil) }
        }
        // The first few queries were added before there was an index.
        _ = updates(149)
        // The child moves to the front, which concerns all queries that count from there.
        #expect(updates(150) == 1 + 50)
        // The first child is removed, which concerns the same queries.
        #expect(self.updates { _ = tree.applyServer(.null, at: list.appending(keys[150]), tag: nil) } == 1 + 50)
        #expect(self.updates { _ = tree.applyServer(.null, at: list.appending(keys[151]), tag: nil) } == 1)
    }
}
