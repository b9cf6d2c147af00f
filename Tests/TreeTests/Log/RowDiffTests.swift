import Testing
import Tree

struct RowDiffTests {
    /// Returns the rows that change when the value at a path is replaced, in path order: `path old>new`.
    private func rows(_ before: String, _ location: String, _ value: String) throws -> [String] {
        let old = try node(before)
        let new = old.replacing(path(location), with: try node(value))
        var diff = RowDiff(RowCollector())
        diff.compare(old, new, changedAt: path(location))
        return diff.sink.rows.map { "\($0.path) \(json($0.old))>\(json($0.new))" }.sorted()
    }

    @Test(
        arguments: [
            (#"null"#, "", "1", ["/ null>1"]),
            (#"1"#, "", #"{"a":2}"#, ["/ 1>null", "/a null>2"]),
            (#"{"a":1,"b":2}"#, "a", "3", ["/a 1>3"]),
            (#"{"a":1,"b":2}"#, "a", "1", []),
            (#"{"a":1,"b":2}"#, "", #"{"b":3,"c":4}"#, ["/a 1>null", "/b 2>3", "/c null>4"]),
            (#"{"a":{"b":1,"c":{"d":2}}}"#, "a", "null", ["/a/b 1>null", "/a/c/d 2>null"]),
            (#"{"a":{"b":1}}"#, "a/b/c", "2", ["/a/b 1>null", "/a/b/c null>2"]),
            (#"{"a":{"b":{"c":2}}}"#, "a", "5", ["/a null>5", "/a/b/c 2>null"]),
            (
                #"{"a":{"b":1,".priority":7},".priority":8}"#, "a/b", "null",
                ["/.priority 8>null", "/a/.priority 7>null", "/a/b 1>null"]
            ),
            (#"{"a":{".value":1,".priority":7}}"#, "a/b", "2", ["/a 1>null", "/a/b null>2"]),
            (#"{"a":{".value":1,".priority":7}}"#, "a", "1", ["/a/.priority 7>null"]),
            (#"{"a":{".value":1,".priority":7}}"#, "a/.priority", "8", ["/a/.priority 7>8"]),
            (#"{"a":{"b":1}}"#, "a/.priority", "8", ["/a/.priority null>8"]),
            (#"{"a":1}"#, ".priority", "8", ["/.priority null>8"]),
            (#"{"a":1}"#, "x/.priority", "8", []),
            (#"{"a":1}"#, "a/b", "null", []),
            (#"{"a":0}"#, "a", "-0.0", ["/a 0>-0.0"]),
            // Canonically equivalent, but not the same data.
            (#"{"a":"\u00e9"}"#, "a", #""e\u0301""#, ["/a \"é\">\"e\u{301}\""]),
        ] as [(String, String, String, [String])])
    func `a write's rows`(before: String, location: String, value: String, expected: [String]) throws {
        #expect(try rows(before, location, value) == expected)
    }

    /// A row above several changed paths is found for each of them, and is the same each time.
    @Test func `several paths are compared with the tree after all of them`() throws {
        let old = try node(#"{"a":{"b":1,"c":2,".priority":7},"d":5}"#)
        let paths = ["a/b", "a/c", "d/x"]
        let new = try node(#"{"d":{"x":6}}"#)
        var diff = RowDiff(RowCollector())
        for location in paths { diff.compare(old, new, changedAt: path(location)) }
        #expect(
            diff.sink.rows.map { "\($0.path) \(json($0.old))>\(json($0.new))" } == [
                "/a/.priority 7>null", "/a/b 1>null", "/a/.priority 7>null", "/a/c 2>null", "/d 5>null", "/d/x null>6",
            ])
    }

    @Test func `a replaced priority does not look at children`() throws {
        // Distinct objects would be compared; shared ones must not even be walked.
        let wide = Node(children: (0..<1000).map { (Key(String($0)), Node.int(Int64($0))) })
        let new = wide.withPriority(.int(1))
        var diff = RowDiff(RowCollector())
        diff.compare(wide, new, changedAt: path(".priority"))
        #expect(diff.sink.rows.map(\.path) == ["/.priority"])
    }
}
