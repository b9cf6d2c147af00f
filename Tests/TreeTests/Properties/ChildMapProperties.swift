import Testing

@testable import Tree

/// Compares the B+tree with a sorted array.
struct ChildMapProperties {
    enum Pattern: CaseIterable {
        case random
        case ascending
        case descending
        /// Runs of ascending keys at random positions, as several writers of push ids make them.
        case interleaved
        /// Each key between the last one and all before it.
        case inward
    }

    @Test(arguments: Pattern.allCases, [10, 33, 500, 4000])
    func `grows and shrinks like a sorted array`(pattern: Pattern, size: Int) {
        var random = SeededGenerator(seed: UInt64(size))
        var map = ChildMap(sorted: [])
        var model = SortedArray()
        let keys = Self.keys(pattern, size, &random)
        for (step, key) in keys.enumerated() {
            let node = Self.node(&random)
            map = map.replacing(key, with: node)
            model[key] = node
            if step % (size / 10) == 0 { Self.check(map, model) }
        }
        Self.check(map, model)
        Self.checkReading(map, model, &random)
        let snapshot = map
        let before = model
        // Rewrites and removals are mixed, from a full map to an empty one.
        for (step, key) in Self.removals(pattern, keys, &random).enumerated() {
            let old = random.pick(keys)
            if model[old] != nil, random.oneIn(3) {
                let node = Self.node(&random)
                map = map.replacing(old, with: node)
                model[old] = node
            }
            map = map.replacing(key, with: .null)
            model[key] = nil
            if step % (size / 10) == 0 { Self.check(map, model) }
        }
        #expect(map.count == 0)
        #expect(map.first == nil && map.last == nil)
        Self.check(map, model)
        // The version from before the removals is unchanged.
        Self.check(snapshot, before)
    }

    @Test(arguments: Pattern.allCases, [40, 500, 4000])
    func `several at once are as one after another`(pattern: Pattern, size: Int) {
        var random = SeededGenerator(seed: UInt64(size) + 1)
        var map = ChildMap(sorted: [])
        var model = SortedArray()
        let keys = Self.keys(pattern, size, &random)
        var next = 0
        while next < keys.count {
            // Some keys are new, some exist, and some runs are longer than slabs and than whole levels.
            let length = random.oneIn(4) ? random.below(1_200) + 1 : random.below(12) + 1
            var some = SortedArray()
            for key in keys[next..<min(next + length, keys.count)] { some[key] = Self.node(&random) }
            for entry in model.entries where random.oneIn(50) { some[entry.key] = Self.node(&random) }
            let snapshot = map
            let before = model
            map = map.replacing(some.entries[...])
            for entry in some.entries { model[entry.key] = entry.node }
            Self.check(map, model)
            Self.check(snapshot, before)
            next += length
        }
        #expect(map.replacing([]) == map)
        Self.checkReading(map, model, &random)
        #expect(Double(map.count) / Double(Self.leafSlabs(map.root)) >= min(12, Double(map.count)), "\(pattern)")
    }

    @Test func `ascending keys at once fill slabs as they do one by one`() {
        var map = ChildMap(sorted: [])
        for number in 0..<100 {
            let entries = (0..<10).map { ChildMap.Entry(key: Key("-N\(10_000 + number * 10 + $0)"), node: .int(1)) }
            map = map.replacing(entries[...])
        }
        #expect(Self.leafSlabs(map.root) == (1_000 + ChildMap.width - 1) / ChildMap.width)
    }

    @Test(arguments: [0, 1, 31, 32, 33, 64, 1000, 1025, 30_000])
    func `builds from sorted entries`(size: Int) {
        var random = SeededGenerator(seed: 3)
        var model = SortedArray()
        for number in 0..<size { model[Key(String(format(number)))] = .int(Int64(number)) }
        let map = ChildMap(sorted: ContiguousArray(model.entries))
        Self.check(map, model)
        Self.checkReading(map, model, &random)
    }

    @Test func `removing what is not there changes nothing`() {
        let map = ChildMap(sorted: [.init(key: Key("b"), node: .int(1))])
        #expect(map.replacing(Key("a"), with: .null) == map)
        #expect(map.replacing(Key("c"), with: .null) == map)
        #expect(ChildMap(sorted: []).replacing(Key("c"), with: .null).count == 0)
    }

    @Test func `no order of writes leaves slabs nearly empty`() {
        var random = SeededGenerator(seed: 9)
        for pattern in Pattern.allCases {
            var map = ChildMap(sorted: [])
            let keys = Self.keys(pattern, 4000, &random)
            for key in keys { map = map.replacing(key, with: .int(1)) }
            #expect(Double(map.count) / Double(Self.leafSlabs(map.root)) >= 12, "\(pattern)")
            // Thinned from the right to an eighth, slab by slab: neighbours are merged.
            for (index, key) in keys.sorted().enumerated().reversed() where index % 8 != 0 {
                map = map.replacing(key, with: .null)
            }
            #expect(Double(map.count) / Double(Self.leafSlabs(map.root)) >= 8, "\(pattern)")
        }
    }

    // MARK: Helpers

    private func format(_ number: Int) -> String {
        let digits = String(number)
        return "k" + String(repeating: "0", count: 8 - digits.count) + digits
    }

    private static func node(_ random: inout SeededGenerator) -> Node {
        switch random.below(4) {
        case 0: .int(1)
        case 1: Node.int(2).withPriority(.int(3))
        default: Node(children: (0...random.below(3)).map { (Key(String($0)), .bool(true)) })
        }
    }

    private static func keys(_ pattern: Pattern, _ size: Int, _ random: inout SeededGenerator) -> [Key] {
        switch pattern {
        case .random: (0..<size).map { _ in Key(String(random.below(size * 2) - size)) }
        case .ascending: (0..<size).map { Key(String($0)) }
        case .descending: (0..<size).reversed().map { Key(String($0)) }
        case .interleaved:
            (0..<size).map { Key("-N\(random.below(5))" + String($0 + 100_000)) }
        case .inward:
            (0..<min(size, 32)).map { Key(String($0)) } + (32..<max(size, 32)).reversed().map { Key(String($0)) }
        }
    }

    private static func removals(_ pattern: Pattern, _ keys: [Key], _ random: inout SeededGenerator) -> [Key] {
        switch pattern {
        case .random, .interleaved: keys.shuffled(using: &random)
        case .ascending, .descending: keys
        case .inward: keys.reversed()
        }
    }

    private static func leafSlabs(_ slab: ChildMap.Slab) -> Int {
        switch slab {
        case .entries: 1
        case .inner(let inner): inner.slabs.reduce(0) { $0 + leafSlabs($1) }
        case .paged: 0
        }
    }

    /// Checks the entries and their order, sums, low keys, sizes and depth.
    private static func check(_ map: ChildMap, _ model: SortedArray) {
        #expect(map.count == model.entries.count)
        #expect(map.rowCount == model.entries.reduce(0) { $0 + $1.node.rowCount })
        let entries = Array(map)
        #expect(entries.map(\.key) == model.entries.map(\.key))
        #expect(zip(entries, model.entries).allSatisfy { $0.node == $1.node })
        #expect(map.first?.key == model.entries.first?.key)
        #expect(map.last?.key == model.entries.last?.key)
        var depths: Set<Int> = []
        check(map.root, isRoot: true, depth: 0, &depths)
        #expect(depths.count == 1)
    }

    private static func check(_ slab: ChildMap.Slab, isRoot: Bool, depth: Int, _ depths: inout Set<Int>) {
        switch slab {
        case .entries(let entries):
            #expect(entries.count <= ChildMap.width)
            #expect(isRoot || !entries.isEmpty)
            depths.insert(depth)
        case .inner(let inner):
            #expect(inner.slabs.count <= ChildMap.width)
            #expect(inner.slabs.count >= (isRoot ? 2 : 1))
            #expect(inner.count == inner.slabs.reduce(0) { $0 + $1.count })
            #expect(inner.rowCount == inner.slabs.reduce(0) { $0 + $1.rowCount })
            #expect(Array(inner.lowKeys) == inner.slabs.map(\.lowKey))
            for below in inner.slabs { check(below, isRoot: false, depth: depth + 1, &depths) }
        case .paged: Issue.record("nobody has made pages")
        }
    }

    private static func checkReading(_ map: ChildMap, _ model: SortedArray, _ random: inout SeededGenerator) {
        var bounds = [Key(""), Key("-5"), Key("zzz"), Key("k00000500x"), Key("7")]
        for _ in 0..<30 where !model.entries.isEmpty { bounds.append(random.pick(model.entries).key) }
        for key in bounds {
            #expect(map[key] == model[key])
            let upwards = map.entries(from: key).prefix(50).map(\.key)
            #expect(Array(upwards) == model.entries.drop { $0.key < key }.prefix(50).map(\.key))
            var downwards: [Key] = []
            map.forEachReversed(from: key) {
                downwards.append($0.key)
                return downwards.count < 50
            }
            #expect(downwards == model.entries.filter { $0.key <= key }.suffix(50).reversed().map(\.key))
        }
        var all: [Key] = []
        map.forEachReversed {
            all.append($0.key)
            return true
        }
        #expect(all == model.entries.reversed().map(\.key))
    }
}

/// Entries in key order, found by binary search and moved by the array.
private struct SortedArray {
    private(set) var entries: [ChildMap.Entry] = []

    private func index(_ key: Key) -> Int {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].key < key { low = middle + 1 } else { high = middle }
        }
        return low
    }

    subscript(key: Key) -> Node? {
        get {
            let index = index(key)
            return index < entries.count && entries[index].key == key ? entries[index].node : nil
        }
        set {
            let index = index(key)
            if index < entries.count, entries[index].key == key { entries.remove(at: index) }
            if let newValue { entries.insert(.init(key: key, node: newValue), at: index) }
        }
    }
}
