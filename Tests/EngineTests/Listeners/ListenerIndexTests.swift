import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks the listeners that a change touches against the plain definition: at the path, above it, and below it.
@Suite struct ListenerIndexTests {
    private static func paths(_ texts: [String]) -> [Path] { texts.map(Path.init(splitting:)) }

    /// Returns the names of the listeners that a change at a path touches.
    private static func touched(_ index: ListenerIndex, by path: String) -> [String] {
        var names: [String] = []
        index.forEachTouched(by: Path(splitting: path)) { names.append(($0 as? NamedListener)?.name ?? "?") }
        return names.sorted()
    }

    @Test(arguments: [
        ("", ["", "a", "a/b", "a/b/c", "x"]), ("a", ["", "a", "a/b", "a/b/c"]), ("a/b", ["", "a", "a/b", "a/b/c"]),
        ("a/b/c/d", ["", "a", "a/b", "a/b/c"]), ("a/z", ["", "a"]), ("x/y", ["", "x"]), ("z", [""]),
    ])
    func touchedListeners(path: String, names: [String]) {
        var index = ListenerIndex()
        for name in ["", "a", "a/b", "a/b/c", "x"] { index.add(NamedListener(name), at: Path(splitting: name)) }
        #expect(Self.touched(index, by: path) == names)
    }

    /// A priority has its own path: it touches listeners above it and at its node, and none below.
    @Test func aPriorityTouchesItsPathAndItsAncestors() {
        var index = ListenerIndex()
        for name in ["", "a", "a/b"] { index.add(NamedListener(name), at: Path(splitting: name)) }
        #expect(Self.touched(index, by: "a/.priority") == ["", "a"])
    }

    @Test func oneListenerAtOnePathCountsOnce() {
        var index = ListenerIndex()
        let listener = NamedListener("a")
        index.add(listener, at: Path(splitting: "a"))
        index.add(listener, at: Path(splitting: "a"))
        #expect(index.count == 1)
        #expect(Self.touched(index, by: "a") == ["a"])
        index.remove(listener, at: Path(splitting: "a"))
        #expect(index.isEmpty && Self.touched(index, by: "a").isEmpty)
    }

    @Test func removingWhatIsNotThereChangesNothing() {
        var index = ListenerIndex()
        let listener = NamedListener("a/b")
        index.add(listener, at: Path(splitting: "a/b"))
        for path in Self.paths(["", "a", "a/b/c", "x"]) { index.remove(listener, at: path) }
        index.remove(NamedListener("other"), at: Path(splitting: "a/b"))
        #expect(index.count == 1)
        #expect(Self.touched(index, by: "a") == ["a/b"])
    }

    @Test(arguments: 1...8 as ClosedRange<UInt64>) func asDefined(seed: UInt64) {
        var random = TreeGenerator(seed: seed)
        var index = ListenerIndex()
        var model: [(listener: NamedListener, path: Path)] = []
        for number in 0..<400 {
            if random.random.oneIn(3), !model.isEmpty {
                let one = model.remove(at: random.random.below(model.count))
                index.remove(one.listener, at: one.path)
            } else {
                let one = (listener: NamedListener("\(number)"), path: random.path(maxDepth: 3))
                model.append(one)
                index.add(one.listener, at: one.path)
            }
            #expect(index.count == model.count && index.isEmpty == model.isEmpty)
            let path = random.path(maxDepth: 4)
            let expected = model.filter { $0.path.contains(path) || path.contains($0.path) }.map(\.listener.name)
            #expect(Self.touched(index, by: path.description) == expected.sorted(), "\(path)")
            #expect(index.all.count == model.count)
        }
        for one in model { index.remove(one.listener, at: one.path) }
        #expect(index.isEmpty && index.all.isEmpty)
    }
}
