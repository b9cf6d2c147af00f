import Testing

@testable import Tree

/// Compares edits of ranges of children with the same edits of a sorted array.
struct KeyRangeProperties {
    private static func map(_ size: Int, _ random: inout SeededGenerator) -> ChildMap {
        var map = ChildMap(sorted: [])
        for _ in 0..<size {
            let number = random.below(size * 2)
            let key = random.oneIn(3) ? Key("\(number)") : Key("k\(number)")
            map = map.replacing(key, with: node(&random))
        }
        return map
    }

    private static func node(_ random: inout SeededGenerator) -> Node {
        random.oneIn(4)
            ? Node(children: (0...random.below(3)).map { (Key("c\($0)"), .bool(true)) }, priority: .int(1))
            : .int(Int64(random.below(1_000)))
    }

    private static func key(_ size: Int, _ random: inout SeededGenerator) -> Key {
        let number = random.below(size * 2 + 2)
        return random.oneIn(3) ? Key("\(number)") : Key("k\(number)")
    }

    /// Checks the sums, the order, the widths of slabs, and that all low keys are exact.
    static func check(_ map: ChildMap) {
        let entries = Array(map)
        #expect(map.count == entries.count)
        #expect(map.rowCount == entries.reduce(0) { $0 + $1.node.rowCount })
        #expect(zip(entries, entries.dropFirst()).allSatisfy { $0.key < $1.key })
        check(map.root)
    }

    private static func check(_ slab: ChildMap.Slab) {
        #expect(slab.fill <= ChildMap.width)
        guard case .inner(let inner) = slab else { return }
        #expect(!inner.slabs.isEmpty)
        #expect(inner.count == inner.slabs.reduce(0) { $0 + $1.count })
        #expect(inner.rowCount == inner.slabs.reduce(0) { $0 + $1.rowCount })
        #expect(Array(inner.lowKeys) == inner.slabs.map { $0.edge(last: false).key })
        for slab in inner.slabs {
            #expect(slab.count > 0)
            check(slab)
        }
    }

    @Test(arguments: [0, 5, 40, 700, 5_000], 1...3 as ClosedRange<UInt64>)
    func `edits of ranges equal those of a sorted array`(size: Int, seed: UInt64) {
        var random = SeededGenerator(seed: seed &* 31 &+ UInt64(size))
        for _ in 0..<(size > 1_000 ? 10 : 40) {
            let map = Self.map(size, &random)
            let before = Array(map)
            let bounds = Set((0..<random.below(9)).map { _ in Self.key(size, &random) }).sorted()
            var gaps: [KeyGap] = []
            var next = 0
            if let first = bounds.first, random.oneIn(3) {
                gaps.append(KeyGap(after: nil, before: first))
                next = 1
            }
            while next + 1 < bounds.count {
                gaps.append(KeyGap(after: bounds[next], before: bounds[next + 1]))
                next += random.oneIn(2) ? 1 : 2
            }
            if let last = bounds.last, random.oneIn(3), gaps.last?.before.map({ $0 <= last }) ?? true {
                gaps.append(KeyGap(after: last, before: nil))
            }
            if random.oneIn(30) { gaps = [KeyGap(after: nil, before: nil)] }
            let keys = Set((0..<random.below(random.oneIn(4) ? size + 1 : 6)).map { _ in Self.key(size, &random) })
            let edits = keys.sorted().map { (key: $0, node: random.oneIn(3) ? .null : Self.node(&random)) }
            var model: [Key: Node] = [:]
            for entry in before {
                let isRemoved = gaps.contains { gap in
                    (gap.after.map { $0 < entry.key } ?? true) && (gap.before.map { entry.key < $0 } ?? true)
                }
                if !isRemoved { model[entry.key] = entry.node }
            }
            for edit in edits { model[edit.key] = edit.node.isNull ? nil : edit.node }
            let after = map.replacing(edits, removing: gaps)
            Self.check(after)
            let found = Array(after)
            #expect(found.map(\.key) == model.keys.sorted(), "size \(size), seed \(seed)")
            #expect(found.allSatisfy { model[$0.key] == $0.node })
            #expect(Array(map).map(\.key) == before.map(\.key), "the old version is unchanged")
            // Later changes find a usable map.
            var changed = after
            for entry in found.shuffled(using: &random).prefix(50) {
                changed = changed.replacing(entry.key, with: .null)
            }
            Self.check(changed)
        }
    }

    @Test(arguments: [3, 60, 3_000]) func `a restricted node has the children of the range`(size: Int) {
        var random = SeededGenerator(seed: UInt64(size))
        let map = Self.map(size, &random)
        let whole = Node.branch(Branch(priority: .int(5), children: map))
        for _ in 0..<60 {
            let first = random.oneIn(4) ? nil : Self.key(size, &random)
            let last = random.oneIn(4) ? nil : Self.key(size, &random)
            let part = whole.restricted(toKeysFrom: first, through: last)
            let expected = Array(map).filter { (first ?? $0.key) <= $0.key && $0.key <= (last ?? $0.key) }
            #expect(part == Node(children: expected.map { ($0.key, $0.node) }))
            #expect(part.priority.isNull)
            if case .branch(let branch) = part { Self.check(branch.children) }
        }
        #expect(Node.int(3).restricted(toKeysFrom: nil, through: nil) == .null)
        #expect(whole.restricted(toKeysFrom: nil, through: nil) == whole.withoutPriority)
    }

    /// The cost of a restriction does not depend on the number of children.
    @Test func `a restricted node shares the slabs of the range`() {
        let map = ChildMap(
            sorted: ContiguousArray((0..<200_000).map { .init(key: Key("\($0)"), node: .int(Int64($0))) }))
        let whole = Node.branch(Branch(priority: .null, children: map))
        let part = whole.restricted(toKeysFrom: Key("1000"), through: Key("190000"))
        #expect(part.childCount == 189_001)
        #expect(AdditionalHeap(whole).bytes(of: [part]) < 50_000)
        #expect(part.isIdentical(to: part) && whole.replacingChildren([], removing: []).isIdentical(to: whole))
    }
}
