import Testing
import Tree

/// Checks the effect of an import on the tree: cleared data is replaced by the data of its parts, at once.
struct BulkApplicationTests {
    private func apply(_ own: [(String, String)], _ parts: [[(String, String)]], to before: String) throws -> String {
        func changes(_ texts: [(String, String)]) throws -> [Change] {
            try texts.map { Change(path: path($0.0), value: try node($0.1)) }
        }
        var application = BulkApplication(try changes(own), to: try node(before))
        repeat {
            for part in parts { application.take(try changes(part)) }
        } while application.beginNextPass()
        return json(application.root)
    }

    @Test(
        arguments: [
            // The former data of the path is removed, and the data of the parts is added.
            (#"{"a":{"x":1},"b":2}"#, "a", [[("a/y", "3")]], #"{"a":{"y":3},"b":2}"#),
            (#"{"a":1}"#, "", [[("b", "2")], [("c", "3")]], #"{"b":2,"c":3}"#),
            // Without new data, the path is removed, and so are ancestors without other data.
            (#"{"a":{"x":1},"b":2}"#, "a", [], #"{"b":2}"#), (#"{"a":{"x":{"y":1},".priority":4}}"#, "a/x", [], "null"),
            // Nodes above keep their priorities if there is new data.
            (
                #"{"a":{"x":{"y":1},".priority":4}}"#, "a/x", [[("a/x/z", "2")]],
                #"{"a":{"x":{"z":2},".priority":4}}"#
            ),
            // The priority of the path itself is removed with the former data.
            (#"{"a":{"x":1,".priority":4}}"#, "a", [[("a/y", "2")]], #"{"a":{"y":2}}"#),
            // A leaf is added, or a leaf becomes a branch.
            (#"{"a":{"x":1}}"#, "a", [[("a", "5")]], #"{"a":5}"#),
            (#"{"a":5}"#, "a", [[("a/x", "1")], [("a/y", "2")]], #"{"a":{"x":1,"y":2}}"#),
            // Parts may remove data again, and set priorities of the data that they have added.
            (
                #"{"a":1}"#, "a", [[("a/x", "1"), ("a/y", "2")], [("a/x/.priority", "9"), ("a/y", "null")]],
                #"{"a":{"x":{".value":1,".priority":9}}}"#
            ),
            (#"{"a":1}"#, "a", [[("a/.priority", "9")], [("a/x", "1")]], #"{"a":{"x":1,".priority":9}}"#),
        ] as [(String, String, [[(String, String)]], String)])
    func `a cleared location`(before: String, location: String, parts: [[(String, String)]], after: String) throws {
        #expect(try apply([(location, "null")], parts, to: before) == after)
    }

    @Test func `paths that are cleared one by one`() throws {
        let before = #"{"a":1,"b":{"x":2},"c":3,".priority":5}"#
        #expect(
            try apply([("a", "null"), ("b", "null")], [[("b/y", "4")]], to: before)
                == #"{"b":{"y":4},"c":3,".priority":5}"#)
        #expect(try apply([("a", "null"), ("b", "null"), ("c", "null")], [], to: before) == "null")
        #expect(
            try apply([("a", "null"), ("b", "null"), ("c", "null")], [[("c", "1")]], to: before)
                == #"{"c":1,".priority":5}"#)
    }

    @Test func `changes of its own that clear nothing come first`() throws {
        #expect(
            try apply([("b", "1"), ("a", "null"), ("b/.priority", "3")], [[("a/x", "2")]], to: #"{"a":9}"#)
                == #"{"a":{"x":2},"b":{".value":1,".priority":3}}"#)
    }

    /// With any division of an import into parts, and any order of its leaves, the tree is the imported one.
    @Test(arguments: 0..<60 as Range<UInt64>)
    func `parts in any order are the value`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        let before = generator.tree(depth: 4)
        let location = generator.path(maxDepth: 2)
        let value = generator.tree(depth: 3)
        var rows: [Change] = []
        for (bytes, leaf) in ModelTree(value).rows() {
            let below = Path(splitting: String(decoding: bytes, as: UTF8.self))
            rows.append(Change(path: location.appending(below), value: leaf))
        }
        rows.shuffle(using: &generator.random)
        var parts: [[Change]] = []
        while !rows.isEmpty {
            let count = min(rows.count, 1 + generator.random.below(5))
            parts.append(Array(rows.prefix(count)))
            rows.removeFirst(count)
        }
        var application = BulkApplication([Change(path: location, value: .null)], to: before)
        repeat { for part in parts { application.take(part) } } while application.beginNextPass()
        // A leaf above the path is replaced by new data below it, and stays if there is none.
        #expect(application.root == before.replacing(location, with: value), "seed \(seed)")
    }
}
