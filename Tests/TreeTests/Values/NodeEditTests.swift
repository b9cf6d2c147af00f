import Testing
import Tree

/// Checks replacing, with the protocol's pruning and priorities (reference: rtdb-protocol 6.1).
struct NodeEditTests {
    private func edit(_ before: String, _ location: String, _ value: String) throws -> String {
        json(try node(before).replacing(path(location), with: try node(value)))
    }

    @Test(arguments: [
        ("null", "", "1", "1"),
        ("null", "a/b", "1", #"{"a":{"b":1}}"#),
        (#"{"a":1}"#, "", #"{"b":2}"#, #"{"b":2}"#),
        (#"{"a":1}"#, "b", "2", #"{"a":1,"b":2}"#),
        (#"{"a":1}"#, "a", #"{"x":1}"#, #"{"a":{"x":1}}"#),
        (#"{"a":{"b":1,"c":2}}"#, "a/b", "null", #"{"a":{"c":2}}"#),
        (#"{"a":{"b":{"c":1}},"z":1}"#, "a/b/c", "null", #"{"z":1}"#),
        (#"{"a":{"b":1,".priority":5},".priority":6}"#, "a/b", "null", "null"),
        (#"{"a":{"b":1,".priority":5},".priority":6}"#, "a", "7", #"{"a":7,".priority":6}"#),
        ("5", "a", "1", #"{"a":1}"#),
        (#"{".value":5,".priority":"p"}"#, "a/b", "1", #"{"a":{"b":1},".priority":"p"}"#),
        (#"{".value":5,".priority":"p"}"#, "a/b", "null", #"{".value":5,".priority":"p"}"#),
        ("5", "a", "null", "5"),
        ("null", "a/b", "null", "null"),
        (#"{"a":1}"#, "b/c", "null", #"{"a":1}"#),
    ])
    func `a replacement`(before: String, location: String, value: String, after: String) throws {
        #expect(try edit(before, location, value) == after)
    }

    @Test(arguments: [
        (#"{"a":1}"#, ".priority", "3", #"{"a":1,".priority":3}"#),
        (#"{"a":1}"#, "a/.priority", "3", #"{"a":{".value":1,".priority":3}}"#),
        (#"{"a":{".value":1,".priority":3}}"#, "a/.priority", "null", #"{"a":1}"#),
        (#"{"a":{".value":1,".priority":3}}"#, "a/.priority", "\"s\"", #"{"a":{".value":1,".priority":"s"}}"#),
        (#"{"a":1}"#, "b/.priority", "3", #"{"a":1}"#),
        (#"{"a":1}"#, "a/b/.priority", "3", #"{"a":1}"#),
        ("null", ".priority", "3", "null"),
    ])
    func `a replaced priority`(before: String, location: String, value: String, after: String) throws {
        #expect(try edit(before, location, value) == after)
    }

    @Test func `what did not change is shared`() throws {
        let before = try node(#"{"a":{"x":1},"b":{"y":2}}"#)
        let after = before.replacing(path("a/x"), with: .int(3))
        #expect(after[path("b")].isIdentical(to: before[path("b")]))
        #expect(before.replacing(path("a/x"), with: .int(1)).isIdentical(to: before))
        #expect(before.replacing(path("c/d"), with: .null).isIdentical(to: before))
        #expect(json(before) == #"{"a":{"x":1},"b":{"y":2}}"#)
    }
}
