import Tree

/// Random values and paths, with few keys so that writes collide.
struct TreeGenerator {
    var random: SeededGenerator
    /// Keys that have caused errors in similar stores: integers, ties, spaces before slashes, astral characters,
    /// prefixes.
    static let keys = [
        "a", "b", "a b", "a!", "a-", "aa", "0", "1", "2", "10", "01", "-1", "-0", "00", "2147483648", "é", "e\u{301}",
        "😀", "～",
        "-NxAbcdefghijklmnopq", "-NxAbcdefghijklmnopr",
    ]

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    mutating func key() -> Key { Key(random.pick(Self.keys)) }

    mutating func path(maxDepth: Int) -> Path {
        Path((0..<random.below(maxDepth + 1)).map { _ in key() })
    }

    mutating func number() -> Node {
        switch random.below(6) {
        case 0: .int(Int64(random.below(5)) - 2)
        case 1: .int(Int64(bitPattern: random.next()))
        case 2: Node(number: Double(random.below(9)) / 4)
        case 3: Node(number: -0.0)
        case 4: Node(number: Double(Int64(bitPattern: random.next())) * 4)
        default: Node(number: [1e300, 5e-300, -1e19, 0x1p53, 0x1p53 + 2][random.below(5)])
        }
    }

    mutating func text() -> String {
        random.pick(["", "x", "text", "\"\\/\n\0\u{7F}", "é😀", String(repeating: "long ", count: 9), "10", "\u{2028}"])
    }

    mutating func bareLeaf() -> Node {
        switch random.below(5) {
        case 0: .bool(random.oneIn(2))
        case 1, 2: .string(text())
        default: number()
        }
    }

    mutating func priority() -> Node { random.oneIn(2) ? number() : .string(text()) }

    mutating func leaf() -> Node { random.oneIn(5) ? bareLeaf().withPriority(priority()) : bareLeaf() }

    mutating func tree(depth: Int) -> Node {
        if depth == 0 || random.oneIn(3) { return random.oneIn(12) ? .null : leaf() }
        let children = (0..<random.below(7)).map { _ in (key(), tree(depth: depth - 1)) }
        return Node(children: children, priority: random.oneIn(5) ? priority() : .null)
    }
}
