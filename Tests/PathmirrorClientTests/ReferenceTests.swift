import ClientCore
import Foundation
import Testing
import Tree

@testable import PathmirrorClient

/// Checks references, queries and snapshots, which need no connection.
@Suite struct ReferenceTests {
    private let database = TestDatabases.offline()

    @Test func paths() {
        let root = database.reference()
        #expect(root.key == nil)
        #expect(root.parent == nil)
        let child = root.child("users/ada")
        #expect(child.key == "ada")
        #expect(child.parent?.key == "users")
        #expect(child.root == root)
        #expect(child == database.reference(withPath: "/users//ada/"))
        #expect(child.url.hasSuffix("/users/ada"))
        #expect(child.description() == child.url)
        #expect(database.reference(fromURL: child.url) == child)
        #expect(child.database === database)
        #expect(child.child("a b").url.hasSuffix("/a%20b"))
        #expect(database.reference(withPath: ".info/connected").key == "connected")
    }

    @Test func automaticKeysAscend() {
        let keys = (0..<1_000).map { _ in database.reference().childByAutoId().key ?? "" }
        #expect(keys == keys.sorted { $0.codeUnitOrder(against: $1) < 0 })
        #expect(Set(keys).count == keys.count)
        #expect(keys.allSatisfy { $0.utf8.count == 20 })
    }

    @Test func queries() throws {
        let root = database.reference()
        let query = root.queryOrdered(byChild: "a/b").queryStarting(atValue: 3, childKey: "k").queryEnding(
            beforeValue: "x"
        )
        .queryLimited(toLast: 5)
        let expected = Query(
            index: .child(Path(splitting: "a/b")), start: .init(value: .init(.int(3)), key: Key("k")),
            end: .init(value: .init(.string("x")), isInclusive: false), limit: .last(5))
        #expect(query.spec == QuerySpec(path: .root, query: expected))
        #expect(query.ref == root)
        let equal = root.queryOrderedByValue().queryEqual(toValue: nil, childKey: "k")
        #expect(equal.spec.query.start == equal.spec.query.end)
        #expect(root.queryOrderedByPriority().spec == root.spec)
        #expect(root.queryOrderedByKey().queryStarting(afterValue: "m").spec.query.start?.isInclusive == false)
    }

    @Test func queriesThatCannotBe() {
        let builder = QueryBuilder()
        #expect(throws: InvalidArgument.self) { try builder.ordered(by: .key).ordered(by: .value) }
        #expect(throws: InvalidArgument.self) { try builder.ordered(byChild: "$key") }
        #expect(throws: InvalidArgument.self) { try builder.ordered(byChild: "a.b") }
        #expect(throws: InvalidArgument.self) { try builder.limited(to: .first(0)) }
        #expect(throws: InvalidArgument.self) { try builder.limited(to: .first(1)).limited(to: .last(1)) }
        #expect(throws: InvalidArgument.self) {
            try builder.starting(at: 1, key: nil, isInclusive: true).starting(at: 1, key: nil, isInclusive: true)
        }
        #expect(throws: InvalidArgument.self) {
            try builder.equal(to: 1, key: nil).ending(at: 1, key: nil, isInclusive: true)
        }
        #expect(throws: InvalidArgument.self) {
            try builder.ordered(by: .key).starting(at: 1, key: nil, isInclusive: true)
        }
        #expect(throws: InvalidArgument.self) {
            try builder.starting(at: 1, key: nil, isInclusive: true).ordered(by: .key)
        }
        #expect(throws: InvalidArgument.self) { try builder.starting(at: ["a": 1], key: nil, isInclusive: true) }
        #expect(throws: InvalidArgument.self) { try builder.starting(at: true, key: nil, isInclusive: true) }
    }

    /// A programming error ends the process, and its message names the call.
    @Test func wrongCallsTrap() async {
        await #expect(processExitsWith: .failure) {
            _ = TestDatabases.offline().reference().child("a.b")
        }
        await #expect(processExitsWith: .failure) {
            TestDatabases.offline().reference().setValue(Double.nan)
        }
        await #expect(processExitsWith: .failure) { _ = Database.database() }
    }

    @Test func snapshots() throws {
        let node = try JSONParser.parse(
            #"{"a":{"n":3},"b":{"n":1,".priority":2},"c":{"n":2},".priority":"p"}"#)
        let ref = database.reference(withPath: "top")
        let snapshot = DataSnapshot(ref: ref, node: node, index: .child(Path([Key("n")])))
        #expect(snapshot.key == "top")
        #expect(snapshot.exists())
        #expect(snapshot.hasChildren())
        #expect(snapshot.childrenCount == 3)
        #expect(snapshot.hasChild("a/n"))
        #expect(!snapshot.hasChild("a/x"))
        #expect(snapshot.priority as? String == "p")
        #expect(snapshot.childSnapshot(forPath: "b/n").value as? Int == 1)
        #expect(snapshot.childSnapshot(forPath: "b").ref.url.hasSuffix("/top/b"))
        #expect((snapshot.valueInExportFormat() as? [String: Any])?[".priority"] as? String == "p")
        #expect(snapshot.children.compactMap { ($0 as? DataSnapshot)?.key } == ["b", "c", "a"])
        #expect(snapshot.childSnapshots.map(\.key) == ["b", "c", "a"])
        let empty = snapshot.childSnapshot(forPath: "z")
        #expect(!empty.exists())
        #expect(empty.value is NSNull)
        #expect(empty.priority is NSNull)
        #expect(empty.children.nextObject() == nil)
    }

    @Test func mutableData() throws {
        let node = try JSONParser.parse(#"{"stars":{"u1":true},"count":1}"#)
        let whole = MutableData.Whole(node, at: Path([Key("post")]))
        let data = MutableData(whole)
        #expect(data.key == "post")
        #expect(data.hasChild(atPath: "stars/u1"))
        data.childData(byAppendingPath: "count").value = 2
        data.childData(byAppendingPath: "stars/u2").value = true
        data.childData(byAppendingPath: "stars/u1").value = nil
        data.priority = 7
        #expect(data.childrenCount == 2)
        #expect(data.children.compactMap { ($0 as? MutableData)?.key } == ["count", "stars"])
        let expected = try JSONParser.parse(#"{"stars":{"u2":true},"count":2,".priority":7}"#)
        #expect(whole.node == expected)
        data.value = ["a.b": 1]
        #expect(whole.error != nil)
        #expect(whole.node == expected)
    }
}
