import Testing
import Tree

struct NodeTests {
    @Test func `a node is two words and a tag`() {
        #expect(MemoryLayout<Node>.size == 17)
        #expect(MemoryLayout<ChildMap.Entry>.stride == 40)
    }

    @Test func `equality is of data, not of numbers or normal forms`() throws {
        #expect(Node.int(1) == .int(1))
        #expect(Node.double(0) != .double(-0.0))
        #expect(Node.string("é") != .string("e\u{301}"))
        #expect(try node(#"{"a":{"b":1}}"#) == node(#"{"a":{"b":1}}"#))
        #expect(try node(#"{"a":{"b":1}}"#) != node(#"{"a":{"b":2}}"#))
        #expect(try node(#"{"a":1}"#) != node(#"{"a":1,".priority":1}"#))
        #expect(try node(#"{".value":1,".priority":1}"#) == node(#"{".value":1,".priority":1}"#))
        #expect(try node(#"{".value":1,".priority":1}"#) != node("1"))
        #expect(Node.serverValue(ServerValue(.timestamp)) == .serverValue(ServerValue(.timestamp)))
        #expect(Node.serverValue(ServerValue(.timestamp)) != .serverValue(ServerValue(.increment(.int(1)))))
    }

    @Test func `identity is cheap and never true of different values`() throws {
        let branch = try node(#"{"a":{"b":1}}"#)
        #expect(branch.isIdentical(to: branch))
        #expect(try !branch.isIdentical(to: node(#"{"a":{"b":1}}"#)))
        #expect(Node.string("a").isIdentical(to: .string("a")))
        #expect(!Node.int(1).isIdentical(to: branch))
        #expect(Node.null.isIdentical(to: .null))
    }

    @Test func `counts of rows: leaves and priorities`() throws {
        #expect(Node.null.rowCount == 0)
        #expect(try node("1").rowCount == 1)
        #expect(try node(#"{".value":1,".priority":2}"#).rowCount == 2)
        #expect(try node(#"{"a":1,"b":{"c":2,".priority":3},".priority":4}"#).rowCount == 4)
        #expect(try node(#"{"a":1,"b":2}"#).childCount == 2)
        #expect(Node.int(1).childCount == 0)
    }

    @Test func `children build in any order, the last of equal keys wins, null takes away`() {
        let value = Node(children: [(Key("b"), .int(1)), (Key("a"), .int(2)), (Key("b"), .int(3)), (Key("c"), .null)])
        #expect(json(value) == #"{"a":2,"b":3}"#)
        #expect(Node(children: [(Key("a"), .int(1)), (Key("a"), .null)]).isNull)
        #expect(Node(children: [(Key, Node)](), priority: .int(1)).isNull)
    }

    @Test func `priorities come and go`() throws {
        let leaf = Node.int(1).withPriority(.string("p"))
        #expect(leaf.priority == .string("p"))
        #expect(leaf.isLeaf && !leaf.isBranch)
        #expect(leaf.withoutPriority == .int(1))
        #expect(leaf.withPriority(.int(2)).priority == .int(2))
        #expect(leaf.withPriority(.null) == .int(1))
        #expect(Node.null.withPriority(.int(1)).isNull)
        let branch = try node(#"{"a":1}"#).withPriority(.double(0.5))
        #expect(branch.priority == .double(0.5))
        #expect(try branch.withoutPriority == node(#"{"a":1}"#))
        #expect(branch.rowCount == 2)
    }

    @Test func `a path leads to a node or to its priority`() throws {
        let value = try node(#"{"a":{"b":{".value":1,".priority":2}},".priority":"top"}"#)
        #expect(value[path("a/b")].withoutPriority == .int(1))
        #expect(value[path("a/b/.priority")] == .int(2))
        #expect(value[path(".priority")] == .string("top"))
        #expect(value[path("a/.priority")].isNull)
        #expect(value[path("a/b/c")].isNull)
        #expect(value[path("x/y")].isNull)
        #expect(value[path(".priority/x")].isNull)
        #expect(value[.root].isIdentical(to: value))
        #expect(value.child(Key("z")).isNull)
    }
}
