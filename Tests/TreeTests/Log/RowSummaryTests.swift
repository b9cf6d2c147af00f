import Testing
import Tree

struct RowSummaryTests {
    @Test func `rows of each kind are counted`() throws {
        let old = try node(#"{"a":1,"b":2,"c":{"d":3,".priority":4}}"#)
        let new = try node(#"{"a":1,"b":5,"c":{"e":6}}"#)
        let summary = RowSummary(from: old, to: new)
        #expect(summary.added.count == 1 && summary.added.firstPaths == ["/c/e"])
        #expect(summary.changed.count == 1 && summary.changed.firstPaths == ["/b"])
        #expect(summary.removed.count == 2 && summary.removed.firstPaths == ["/c/.priority", "/c/d"])
        #expect(summary.replacesRows && !summary.isEmpty)
        #expect(RowSummary(from: old, to: old).isEmpty)
        let more = RowSummary(from: old, to: old.replacing(path("z"), with: .int(1)))
        #expect(!more.replacesRows && !more.isEmpty)
    }

    @Test func `of many rows the first paths are kept`() {
        let wide = Node(children: (0..<1_000).map { (Key(String($0)), Node.int(1)) })
        let summary = RowSummary(from: wide, to: .null)
        #expect(summary.removed.count == 1_000 && summary.removed.firstPaths == ["/0", "/1", "/2", "/3", "/4"])
    }
}

struct PathSetTests {
    @Test func `at, above and below`() {
        let paths = PathSet([path("a/b"), path("c/.priority")])
        for text in ["a/b", "a", "", "a/b/c", "c", "c/.priority"] { #expect(paths.touches(path(text)), "\(text)") }
        for text in ["a/bc", "a/c", "b", "c/d", "a/.priority"] { #expect(!paths.touches(path(text)), "\(text)") }
        #expect(!PathSet([]).touches(.root))
        #expect(PathSet([.root]).touches(path("x/y")))
    }
}
