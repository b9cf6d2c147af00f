import Foundation
import TestSupport
import Testing
import Tree

@testable import PathmirrorClient

/// Checks values as apps write and read them.
@Suite struct ValueTests {
    private func roundTrip(_ value: Any?) throws -> Any {
        try NodeReader.node(of: value, at: .root).foundationValue()
    }

    @Test func leavesAreWhatAppsCastTo() throws {
        #expect(try roundTrip(5) as? Int == 5)
        #expect(try roundTrip(5) as? Double == 5)
        #expect(try roundTrip(5) as? NSNumber == 5)
        #expect(try roundTrip(5) as? String == nil)
        #expect(try roundTrip(true) as? Bool == true)
        #expect(try roundTrip(2.5) as? Double == 2.5)
        #expect(try roundTrip(2.5) as? Int == nil)
        #expect(try roundTrip("é") as? String == "é")
        #expect(try roundTrip("é") as? NSString == "é")
        #expect(try roundTrip(nil) is NSNull)
        #expect(try roundTrip(Int?.none as Any) is NSNull)
        #expect(try roundTrip(Int?.some(3) as Any) as? Int == 3)
    }

    @Test func containersAreWhatAppsCastTo() throws {
        let value: [String: Any] = [
            "name": "Ada", "age": 36, "likes": ["u1": true, "u2": true], "list": [1, 2, 3], "gone": NSNull(),
            "none": [String: Any](),
        ]
        let read = try roundTrip(value)
        let dictionary = try #require(read as? [String: Any])
        #expect(Set(dictionary.keys) == ["name", "age", "likes", "list"])
        #expect(dictionary["likes"] as? [String: Bool] == ["u1": true, "u2": true])
        #expect(dictionary["list"] as? [Int] == [1, 2, 3])
        let object = try #require(read as? NSDictionary)
        #expect(object["age"] as? Int == 36)
        #expect(object["age"] as? Double == 36)
        #expect((object["likes"] as? NSDictionary)?["u1"] as? Bool == true)
        #expect((object["list"] as? NSArray)?.count == 3)
    }

    @Test func arraysFollowTheKeys() throws {
        #expect((try roundTrip(["0": "a", "2": "b"]) as? [Any])?.count == 3)
        #expect((try roundTrip(["0": "a", "2": "b"]) as? [Any])?[1] is NSNull)
        #expect(try roundTrip(["0": "a", "5": "b"]) is [String: Any])
        #expect(try roundTrip(["00": "a"]) is [String: Any])
        #expect(
            try roundTrip(["a", nil, "c"] as [String?]) as? [AnyHashable] == ["a", NSNull(), "c"] as [AnyHashable])
    }

    @Test func foundationsOwnTypesAreRead() throws {
        let object = NSDictionary(
            objects: [NSNumber(value: true), NSNumber(value: 1), NSString(string: "x"), NSArray(array: [1, "y"])],
            forKeys: [NSString(string: "t"), NSString(string: "n"), NSString(string: "s"), NSString(string: "a")])
        let node = try NodeReader.node(of: object, at: .root)
        #expect(node == (try JSONParser.parse(#"{"t":true,"n":1,"s":"x","a":[1,"y"]}"#)))
        #expect(try NodeReader.node(of: Decimal(string: "12.5"), at: .root) == .double(12.5))
        #expect(try NodeReader.node(of: Decimal(string: "9007199254740993"), at: .root) == .int(9_007_199_254_740_993))
        #expect(try NodeReader.node(of: UInt64.max, at: .root) == .double(18_446_744_073_709_551_616))
        #expect(try NodeReader.node(of: NSNumber(value: Int8(1)), at: .root) == .int(1))
        #expect(try NodeReader.node(of: Float(1.5), at: .root) == .double(1.5))
        #expect(
            try NodeReader.node(of: ["a": ["b": false]] as [AnyHashable: Any], at: .root)[Path(splitting: "a/b")]
                == .bool(false))
    }

    @Test func serverValuesAndPriorities() throws {
        let timestamp = try NodeReader.node(of: ServerValue.timestamp(), at: .root)
        #expect(timestamp == .serverValue(Tree.ServerValue(.timestamp)))
        let increment = try NodeReader.node(of: ["n": ServerValue.increment(3)], at: .root).child(Key("n"))
        #expect(increment == .serverValue(Tree.ServerValue(.increment(.int(3)))))
        let exported: [String: Any] = [".value": 5, ".priority": "p"]
        #expect(try NodeReader.node(of: exported, at: .root) == Node.int(5).withPriority(.string("p")))
        #expect(try NodeReader.node(of: 5, at: .root, priority: 2).priority == .int(2))
        #expect(throws: InvalidArgument.self) { try NodeReader.node(of: 5, at: .root, priority: true) }
        #expect(throws: InvalidArgument.self) { try NodeReader.node(of: [".sv": "later"], at: .root) }
        #expect(throws: InvalidArgument.self) { try NodeReader.node(of: [".sv": "timestamp", "a": 1], at: .root) }
    }

    @Test(arguments: ["", ".", "a.b", "a/b", "$", "#", "[", "]", "\u{7F}", "\n", String(repeating: "k", count: 769)])
    func keysThatCannotBe(key: String) {
        #expect(throws: InvalidArgument.self) { try NodeReader.node(of: [key: 1], at: .root) }
    }

    @Test func valuesThatCannotBe() throws {
        #expect(throws: InvalidArgument.self) { try NodeReader.node(of: Double.nan, at: .root) }
        #expect(throws: InvalidArgument.self) { try NodeReader.node(of: ["a": Double.infinity], at: .root) }
        #expect(throws: InvalidArgument.self) { try NodeReader.node(of: Date(), at: .root) }
        #expect(throws: InvalidArgument.self) { try NodeReader.node(of: [1: "a"] as [AnyHashable: Any], at: .root) }
        #expect(throws: InvalidArgument.self) {
            try NodeReader.node(of: String(repeating: "x", count: KeyRules.maxStringBytes + 1), at: .root)
        }
        var deep: Any = 1
        for _ in 0..<32 { deep = ["a": deep] }
        #expect(throws: Never.self) { try NodeReader.node(of: deep, at: .root) }
        #expect(throws: InvalidArgument.self) { try NodeReader.node(of: deep, at: Path([Key("b")])) }
    }

    @Test func updates() throws {
        let changes = try NodeReader.changes(["a/b": 1, "c": NSNull(), "d/.priority": 2], at: .root)
        #expect(Set(changes.map(\.path.description)) == ["/a/b", "/c", "/d/.priority"])
        #expect(throws: InvalidArgument.self) { try NodeReader.changes(["a": 1, "a/b": 2], at: .root) }
        #expect(throws: InvalidArgument.self) { try NodeReader.changes(["/": 1], at: .root) }
        #expect(throws: InvalidArgument.self) { try NodeReader.changes(["a.b": 1], at: .root) }
        #expect(throws: InvalidArgument.self) { try NodeReader.changes([1: 1], at: .root) }
    }

    /// A value that is read and written back is identical, except for priorities, which the export form keeps.
    @Test(arguments: 0..<40) func roundTrips(seed: Int) throws {
        var generator = TreeGenerator(seed: UInt64(seed))
        for _ in 0..<25 {
            // Swift's dictionaries treat canonically equivalent spellings of a character as the same key.
            let node = generator.tree(depth: 4).droppingDecomposedKeys()
            #expect(try NodeReader.node(of: node.foundationExport(), at: .root) == node)
            let plain = try NodeReader.node(of: node.foundationValue(), at: .root)
            #expect(plain == (try JSONParser.parse(JSONWriter.encode(node, form: .plain)).node))
        }
    }

    @Test func numbersAreExact() throws {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<20_000 {
            let bits = random.next()
            let integer = Int64(bitPattern: bits)
            #expect(try roundTrip(integer) as? Int64 == integer)
            let double = Double(bitPattern: bits)
            if double.isFinite {
                let read = try #require(try roundTrip(double) as? NSNumber)
                #expect(read.doubleValue.bitPattern == double.bitPattern)
            }
        }
    }
}

extension Node {
    /// Returns the node without keys that are decomposed spellings of a composed key.
    fileprivate func droppingDecomposedKeys() -> Node {
        guard case .branch(let branch) = self else { return self }
        let children = branch.children.filter { $0.key != Key("e\u{301}") }.map {
            ($0.key, $0.node.droppingDecomposedKeys())
        }
        return Node(children: children, priority: branch.priority)
    }
}
