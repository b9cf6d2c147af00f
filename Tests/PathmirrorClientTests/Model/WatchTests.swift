import ClientCore
import Testing
import Tree

@testable import PathmirrorClient

/// Checks the model's own check: right events raise no alarm, and wrong ones do.
@Suite struct WatchTests {
    private typealias Report = (kind: DataEvent.Kind, json: String)

    private static let (a, b, c) = (Key("a"), Key("b"), Key("c"))
    /// A reference of an app that never connects.
    private static let ref = TestDatabases.offline().reference(withPath: "w")
    private static let byValue: PlainQuery = {
        var query = PlainQuery()
        query.order = .value
        return query
    }()

    private func problems(_ events: [Report], by query: PlainQuery = PlainQuery()) throws -> [String] {
        let watch = Watch(path: Path(splitting: "/w"), query: query, kinds: [.value, .allChildren])
        let index: Query.Index = query.order == .value ? .value : .priority
        for event in events {
            let node = try JSONParser.parse(event.json)
            watch.take(event.kind, DataSnapshot(ref: Self.ref, node: node, index: index))
        }
        return watch.problems
    }

    /// A value that came from a pending write alone is no longer complete when the write is refused: children are then
    /// reported, step by step, and no value until the server's has arrived. A sibling added in between is no
    /// contradiction.
    @Test func stepsWithoutAValue() throws {
        let events: [Report] = [
            (.childAdded(Self.a, previous: nil), "1"), (.childAdded(Self.c, previous: Self.a), "1"),
            (.value, #"{"a":1,"c":1}"#),
            (.childChanged(Self.c, previous: Self.a), "2"),
            (.childAdded(Self.b, previous: Self.a), "1"),
            (.childChanged(Self.a, previous: nil), "2"),
            (.value, #"{"a":2,"b":1,"c":2}"#),
        ]
        #expect(try problems(events) == [])
    }

    /// The library itself reports such steps: a write of the whole value at a path is refused before the server has
    /// sent any of it.
    @Test func stepsOfTheLibraryWithoutAValue() throws {
        let path = Path(splitting: "/w")
        let tree = SyncTree()
        let listener = Registration(
            id: RegistrationID(rawValue: 1), spec: QuerySpec(path: path), kinds: [.value, .allChildren])
        var events = tree.add(listener).events
        func write(_ id: Int64, _ path: Path, _ json: String) throws {
            let content = PendingWrite.Content.overwrite(try JSONParser.parse(json))
            let write = PendingWrite(id: WriteID(rawValue: id), path: path, content: content)
            events += tree.apply(write, estimate: content).events
        }
        try write(1, path, #"{"a":1,"c":1}"#)
        #expect(events.contains { $0.kind == .value }, "all of it is known")
        try write(2, path.appending(Self.c), "2")
        events += tree.acknowledge(WriteID(rawValue: 1), isRefused: true).events
        let before = events.count
        try write(3, path.appending(Self.c), "3")
        try write(4, path.appending(Self.b), "1")
        #expect(
            events.dropFirst(before).map(\.kind) == [
                .childChanged(Self.c, previous: nil), .childAdded(Self.b, previous: nil),
            ])
        events += tree.applyServer(.null, at: path, tag: nil).events
        #expect(events.last?.kind == .value)
        let watch = Watch(path: path, query: PlainQuery(), kinds: listener.kinds)
        for event in events {
            watch.take(event.kind, DataSnapshot(ref: Self.ref, node: event.node, index: event.index))
        }
        #expect(watch.problems == [])
    }

    @Test func aChangeAfterAnother() throws {
        for previous in [nil, Self.a, Self.b, Self.c] {
            let events: [Report] = [
                (.childAdded(Self.a, previous: nil), "1"), (.childAdded(Self.b, previous: Self.a), "1"),
                (.childAdded(Self.c, previous: Self.b), "1"), (.childChanged(Self.c, previous: previous), "2"),
            ]
            #expect(try problems(events).isEmpty == (previous == Self.b), "\(previous as Any)")
        }
    }

    /// An added child names a sibling that moves there only later in the step. Its predecessor among the former
    /// children is accepted, too, as steps can't always be distinguished.
    @Test func comingAfterMovedChildren() throws {
        for (previous, isRight) in [(Self.a, true), (Self.b, true), (nil, false)] {
            let events: [Report] = [
                (.childAdded(Self.a, previous: nil), "1"), (.childAdded(Self.b, previous: Self.a), "2"),
                (.value, #"{"a":1,"b":2}"#),
                (.childAdded(Self.c, previous: previous), "4"),
                (.childMoved(Self.a, previous: Self.b), "3"), (.childChanged(Self.a, previous: Self.b), "3"),
                (.value, #"{"a":3,"b":2,"c":4}"#),
            ]
            #expect(try problems(events, by: Self.byValue).isEmpty == isRight, "\(previous as Any)")
        }
    }

    @Test(arguments: 0..<8) func whatContradictsItself(number: Int) throws {
        let wrong: [[Report]] = [
            [(.childAdded(Self.a, previous: nil), "1")],
            [(.childRemoved(Self.b), "1")],
            [(.childRemoved(Self.a), "2")],
            [(.childChanged(Self.b, previous: nil), "2")],
            [(.childChanged(Self.a, previous: nil), "1")],
            [(.childMoved(Self.a, previous: nil), "2"), (.value, #"{"a":2}"#)],
            [(.childAdded(Self.b, previous: nil), "2"), (.value, #"{"a":1,"b":2}"#)],
            [(.value, #"{"a":1}"#)],
        ]
        let first: [Report] = [(.childAdded(Self.a, previous: nil), "1"), (.value, #"{"a":1}"#)]
        #expect(try problems(first, by: Self.byValue) == [])
        #expect(try !problems(first + wrong[number], by: Self.byValue).isEmpty)
    }
}
