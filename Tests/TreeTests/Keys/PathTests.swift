import Testing
import Tree

struct PathTests {
    @Test(
        arguments: [
            ("", []), ("/", []), ("//", []), ("a", ["a"]), ("/a", ["a"]), ("a/b/", ["a", "b"]),
            ("//a///b", ["a", "b"]),
            ("/a b/%2F", ["a b", "%2F"]), ("é/😀", ["é", "😀"]), ("/.priority", [".priority"]),
        ] as [(String, [String])])
    func `text splits at slashes and empty parts vanish`(text: String, keys: [String]) {
        #expect(Path(splitting: text).keys.map(\.text) == keys)
        #expect(Path(splitting: Substring(text)).keys.map(\.text) == keys)
    }

    @Test func `the description splits back into the path`() {
        #expect(Path.root.description == "/")
        #expect(Path([Key("a"), Key("b")]).description == "/a/b")
        for text in ["/", "/a", "/a/b/c", "/é/-1"] {
            #expect(path(text).description == text)
            #expect(path(text).byteCount == text.utf8.count)
            var bytes: [UInt8] = [1]
            path(text).write(to: &bytes)
            #expect(bytes == [1] + Array(text.utf8))
        }
    }

    @Test func `steps up and down`() {
        let deep = path("a/b/c")
        #expect(deep.depth == 3)
        #expect(deep.last == Key("c"))
        #expect(deep[1] == Key("b"))
        #expect(deep.parent == path("a/b"))
        #expect(Path.root.parent == nil)
        #expect(Path.root.isRoot && !deep.isRoot)
        #expect(deep.dropFirst(1) == path("b/c"))
        #expect(deep.prefix(2) == path("a/b"))
        #expect(deep.relative(to: path("a")) == path("b/c"))
        #expect(path("a").appending(path("b/c")) == deep)
        var copy = deep
        copy.removeLast()
        copy.append(Key("d"))
        #expect(copy == path("a/b").appending(Key("d")))
    }

    @Test func `a path contains itself and what is below it`() {
        #expect(Path.root.contains(path("a")))
        #expect(path("a/b").contains(path("a/b")))
        #expect(path("a/b").contains(path("a/b/c")))
        #expect(!path("a/b").contains(path("a")))
        #expect(!path("a/b").contains(path("a/bc")))
    }

    @Test func `a last key of .priority names a priority`() {
        #expect(path("a/.priority").namesPriority)
        #expect(path(".priority").namesPriority)
        #expect(!path("a").namesPriority)
        #expect(!Path.root.namesPriority)
    }
}
