import TestSupport
import Testing
import Tree

@testable import ClientCore

@Suite struct RangeTreeTests {
    private func value(_ random: inout SeededGenerator) -> Node {
        random.pick([.null, .bool(true), .int(1), .int(2), .double(1), .double(1.5), .string("a"), .string("b")])
    }

    private func bound(_ random: inout SeededGenerator, _ index: Query.Index) -> Query.Bound? {
        if random.oneIn(3) { return nil }
        let keys = ["a", "b", "c", "1", "[MIN_NAME]", "[MAX_NAME]"]
        let isInclusive = random.oneIn(2)
        if index == .key { return .init(value: .init(.string(random.pick(keys))), isInclusive: isInclusive) }
        let key = random.oneIn(2) ? Key(random.pick(keys)) : nil
        return .init(value: .init(value(&random)), key: key, isInclusive: isInclusive)
    }

    /// Every value that a query admits lies in the query's range, and finds the query; every range found overlaps.
    @Test(arguments: 1...4 as ClosedRange<UInt64>) func whatAQueryAdmitsIsFound(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for index in [Query.Index.key, .value] {
            let tree = RangeTree<Int>()
            var queries: [Int: Query] = [:]
            for number in 0..<600 {
                if !queries.isEmpty, random.oneIn(3), let (old, query) = queries.randomElement(using: &random) {
                    tree.remove(old, at: OrderRange(boundsOf: query))
                    queries[old] = nil
                } else {
                    let query = Query(index: index, start: bound(&random, index), end: bound(&random, index))
                    queries[number] = query
                    tree.insert(number, number, at: OrderRange(boundsOf: query))
                }
                #expect(tree.count == queries.count)
                let key = Key(random.pick(["a", "b", "c", "1", "2"]))
                let child = value(&random)
                let range = OrderRange(Query(index: index).indexValue(of: child), key)
                var found: [Int] = []
                tree.forEach(overlapping: range) { found.append($0) }
                #expect(Set(found).count == found.count)
                let overlapping = queries.filter { OrderRange(boundsOf: $0.value).overlaps(range) }.keys
                #expect(Set(found) == Set(overlapping))
                let admitting = queries.filter { $0.value.admits(key, child) }.keys
                #expect(Set(found).isSuperset(of: admitting))
            }
        }
    }
}
