import TestSupport
import Tree
import Wire

@testable import ClientCore

/// Random paths, values and queries.
extension SyncModel {
    mutating func path() -> Path {
        Path(
            (0..<random.below(isCrowded ? 3 : 4)).map { _ in Key(random.pick(isCrowded ? ["a"] : ["a", "b", "c", "1"]))
            })
    }

    private mutating func leaf() -> Node { random.pick([.int(1), .int(2), .int(3), .bool(true), .string("x")]) }

    /// Returns a priority or null.
    mutating func priority(always: Bool = false) -> Node {
        guard always || random.oneIn(6) else { return .null }
        return random.pick([.null, .int(1), .int(2), .string("p")])
    }

    mutating func node(depth: Int) -> Node {
        if depth == 0 || random.oneIn(4) { return random.oneIn(4) ? .null : leaf().withPriority(priority()) }
        let keys = ["a", "b", "c", "d", "e", "1", "10"]
        return Node(
            children: (0..<random.below(6)).map { _ in (Key(random.pick(keys)), node(depth: depth - 1)) },
            priority: priority())
    }

    mutating func changes() -> [Change] {
        var changes: [Change] = []
        for _ in 0..<(1 + random.below(3)) {
            var location = Path([Key(random.pick(["a", "b", "c", "d"]))] + path().keys)
            var value = node(depth: 1)
            if random.oneIn(8) { (location, value) = (location.appending(.priority), priority(always: true)) }
            guard !changes.contains(where: { $0.path.contains(location) || location.contains($0.path) }) else {
                continue
            }
            changes.append(Change(path: location, value: value))
        }
        return changes
    }

    mutating func query() -> Query {
        if random.oneIn(2) { return Query() }
        var query = Query(index: random.pick([.key, .value, .child(Path([Key("a")])), .priority]))
        if random.oneIn(3) {
            let value: Node = query.index == .key ? .string(random.pick(["1", "b", "c"])) : leaf()
            query.start = .init(value: .init(value), isInclusive: random.oneIn(2))
        }
        if random.oneIn(4) {
            let value: Node = query.index == .key ? .string(random.pick(["b", "d", "x"])) : leaf()
            query.end = .init(value: .init(value), isInclusive: random.oneIn(2))
        }
        if !random.oneIn(3) {
            query.limit = random.oneIn(2) ? .first(1 + random.below(3)) : .last(1 + random.below(3))
        }
        return query
    }
}
