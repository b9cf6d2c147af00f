public import Tree

/// Generates random values and paths from a few keys, so that writes overlap.
public struct TreeGenerator: Sendable {
    public var random: SeededGenerator
    /// Keys that have caused failures in similar stores: integers, ties, spaces before slashes, astral characters,
    /// prefixes, quotes, marks that combine with the slash before them, and characters that join the slash after them.
    public static let keys = [
        "a", "b", "a b", "a!", "a-", "aa", "0", "1", "2", "10", "01", "-1", "é", "e\u{301}", "😀", "～", "%25", "\"",
        "\\", "\u{301}a", "\u{200D}", "\u{600}",
        "-NxAbcdefghijklmnopq",
    ]

    public init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    public mutating func key() -> Key { Key(random.pick(Self.keys)) }

    public mutating func path(maxDepth: Int) -> Path {
        Path((0..<random.below(maxDepth + 1)).map { _ in key() })
    }

    public mutating func number() -> Node {
        switch random.below(5) {
        case 0: .int(Int64(random.below(5)) - 2)
        case 1: .int(Int64(bitPattern: random.next()))
        case 2: Node(number: Double(random.below(9)) / 4)
        case 3: Node(number: -0.0)
        default: Node(number: random.pick([1e300, 5e-300, -1e19, 0x1p53, 0x1p53 + 2]))
        }
    }

    public mutating func text() -> String {
        random.pick(["", "x", "text", "\"\\/\n\0\u{7F}", "é😀", String(repeating: "long ", count: 9), "10", "\u{2028}"])
    }

    public mutating func bareLeaf() -> Node {
        switch random.below(5) {
        case 0: .bool(random.oneIn(2))
        case 1, 2: .string(text())
        default: number()
        }
    }

    public mutating func priority() -> Node { random.oneIn(2) ? number() : .string(text()) }

    public mutating func leaf() -> Node { random.oneIn(5) ? bareLeaf().withPriority(priority()) : bareLeaf() }

    /// Returns a value of at most `depth` levels, sometimes null.
    public mutating func tree(depth: Int) -> Node {
        if depth == 0 || random.oneIn(3) { return random.oneIn(12) ? .null : leaf() }
        let children = (0..<random.below(7)).map { _ in (key(), tree(depth: depth - 1)) }
        return Node(children: children, priority: random.oneIn(5) ? priority() : .null)
    }

    /// Returns a path, sometimes of a priority.
    public mutating func writablePath(maxDepth: Int) -> Path {
        let location = path(maxDepth: maxDepth)
        return random.oneIn(12) ? location.appending(.priority) : location
    }

    /// Returns the changes of one update. No path is at or below another one, because such updates are refused.
    public mutating func changes(atMost count: Int, below base: Path) -> [Change] {
        var changes: [Change] = []
        for _ in 0..<(1 + random.below(count)) {
            let location = base.appending(key()).appending(path(maxDepth: 2))
            guard !changes.contains(where: { $0.path.contains(location) || location.contains($0.path) }) else {
                continue
            }
            changes.append(Change(path: location, value: random.oneIn(4) ? .null : tree(depth: 2)))
        }
        return changes
    }
}
