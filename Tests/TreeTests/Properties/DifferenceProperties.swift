import Testing

@testable import Tree

/// Checks the differences of two versions of a node's children.
struct DifferenceProperties {
    private struct Difference: Equatable {
        let key: String
        let old: Node?
        let new: Node?
    }

    private func differences(_ old: ChildMap, _ new: ChildMap) -> [Difference] {
        var found: [Difference] = []
        new.forEachDifference(from: old) { old, new in
            found.append(Difference(key: (old ?? new)?.key.text ?? "", old: old?.node, new: new?.node))
            if let old, let new { #expect(old.key == new.key) }
        }
        return found.sorted { $0.key < $1.key }
    }

    private func expected(_ old: [String: Node], _ new: [String: Node]) -> [Difference] {
        Set(old.keys).union(new.keys).sorted().compactMap { key in
            old[key] == new[key] ? nil : Difference(key: key, old: old[key], new: new[key])
        }
    }

    @Test(arguments: [0, 1, 20, 33, 300, 3_000], [1, 2, 3] as [UInt64])
    func `all that differs is reported, and nothing else`(size: Int, seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var model: [String: Node] = [:]
        var map = ChildMap(sorted: [])
        for number in 0..<size {
            model["k\(number)"] = .int(Int64(number))
            map = map.replacing(Key("k\(number)"), with: .int(Int64(number)))
        }
        for _ in 0..<20 {
            let (before, modelBefore) = (map, model)
            for _ in 0..<random.below(1 + size / 10 + 4) {
                let key = "k\(random.below(size + 10))"
                let value: Node = random.oneIn(3) ? .null : .int(Int64(random.below(1_000_000)))
                map = map.replacing(Key(key), with: value)
                model[key] = value.isNull ? nil : value
            }
            #expect(differences(before, map) == expected(modelBefore, model), "size \(size), seed \(seed)")
            #expect(differences(map, before) == expected(model, modelBefore))
        }
        #expect(differences(map, map).isEmpty)
    }

    @Test func `two maps that were made apart differ where their values do`() {
        let one = ChildMap(sorted: ContiguousArray((10..<90).map { .init(key: Key("\($0)"), node: .int($0)) }))
        let other = ChildMap(
            sorted: ContiguousArray((20..<99).map { .init(key: Key("\($0)"), node: .int($0 == 50 ? 0 : $0)) }))
        let found = differences(one, other)
        #expect(found.count == 10 + 9 + 1)
        #expect(found.filter { $0.old != nil && $0.new != nil }.map(\.key) == ["50"])
        #expect(differences(ChildMap(sorted: []), one).count == 80)
    }

    /// Shared parts are not compared: the work depends on the change, not on the node's size.
    @Test func `a change of one child of many looks at few`() {
        let map = ChildMap(
            sorted: ContiguousArray((0..<100_000).map { .init(key: Key("\($0)"), node: .int(Int64($0))) }))
        let changed = map.replacing(Key("5000"), with: .int(-1))
        #expect(differences(map, changed) == [Difference(key: "5000", old: .int(5_000), new: .int(-1))])
        let clock = ContinuousClock()
        let time = clock.measure { for _ in 0..<1_000 { _ = differences(map, changed) } }
        // Comparing all 100,000 children a thousand times takes many seconds.
        #expect(time < .seconds(5))
    }
}
