import Testing
import Tree

/// Compares queries with a filter, a sort and a cut.
struct QueryProperties {
    @Test(arguments: 0..<400 as Range<UInt64>)
    func `select is filter, sort and limit`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        let children = (0..<generator.random.below(60)).map { _ in
            let key = generator.random.oneIn(2) ? Key(String(generator.random.below(50))) : generator.key()
            return (key, generator.tree(depth: 2))
        }
        let node = Node(children: children, priority: generator.random.oneIn(3) ? generator.priority() : .null)
        for _ in 0..<40 {
            let query = randomQuery(&generator, of: children)
            let selected = query.select(from: node)
            #expect(ModelTree(selected) == ModelTree(naive(query, node)), "seed \(seed), \(query)")
            #expect(selected.priority.isNull)
        }
    }

    /// Compares an ordered index that is updated change by change with a pass over all children.
    @Test(arguments: 0..<60 as Range<UInt64>)
    func `an ordered index selects the same`(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        var children = (0..<(1 + generator.random.below(400))).map { _ in (generator.key(), generator.tree(depth: 2)) }
        var node = Node(children: children)
        var kept: [Query.Index: OrderedIndex] = [:]
        for _ in 0..<60 {
            for _ in 0..<generator.random.below(6) {
                let key = generator.random.oneIn(2) ? generator.random.pick(children).0 : generator.key()
                let value = generator.random.oneIn(3) ? Node.null : generator.tree(depth: 2)
                node = node.replacing(Path([key]), with: value)
                if !value.isNull { children.append((key, value)) }
            }
            guard case .branch(let branch) = node else { return }
            let query = randomQuery(&generator, of: children)
            let ordered = kept[query.index]?.updated(to: branch) ?? OrderedIndex(branch, by: query.index)
            kept[query.index] = ordered
            #expect(ordered.count == branch.children.count)
            if query.index == .key { continue }
            #expect(ordered.select(query) == query.select(from: node.withoutPriority), "seed \(seed), \(query)")
        }
    }

    private func randomQuery(_ generator: inout TreeGenerator, of children: [(Key, Node)]) -> Query {
        let index: Query.Index =
            switch generator.random.below(5) {
            case 0, 1: .key
            case 2: .value
            case 3: .priority
            default: .child(Path([generator.key()]))
            }
        let bounds = (0..<2).map { _ -> Query.Bound? in
            if generator.random.oneIn(2) { return nil }
            let sentinel = Key(generator.random.pick(["[MIN_NAME]", "[MIN_KEY]", "[MAX_NAME]", "[MAX_KEY]"]))
            let key =
                generator.random.oneIn(6) ? sentinel : (generator.random.pick(children.map(\.0) + [generator.key()]))
            let isInclusive = generator.random.oneIn(2)
            if index == .key { return .init(value: .init(.string(key.text)), isInclusive: isInclusive) }
            // Mostly existing values, so that ties occur.
            let child = generator.random.pick(children.map(\.1) + [generator.leaf()])
            let value = Query(index: index).indexValue(of: child)
            let bound = value.isBranch ? generator.bareLeaf() : value.withoutPriority
            return .init(value: .init(bound), key: generator.random.oneIn(2) ? key : nil, isInclusive: isInclusive)
        }
        let limits: [Query.Limit?] = [nil, .first(generator.random.below(12)), .last(generator.random.below(12))]
        return Query(index: index, start: bounds[0], end: bounds[1], limit: generator.random.pick(limits))
    }

    private func naive(_ query: Query, _ node: Node) -> Node {
        guard case .branch(let branch) = node else { return .null }
        func compare(_ left: ChildMap.Entry, _ right: ChildMap.Entry) -> Bool {
            let order = query.index == .key ? 0 : rank(query, left.node, query.indexValue(of: right.node))
            return order == 0 ? left.key < right.key : order < 0
        }
        var entries = branch.children.filter { entry in
            if let start = query.start {
                let order = comparison(query, entry, start, bare: start.isInclusive ? 1 : -1)
                if order < 0 || (order == 0 && !start.isInclusive) { return false }
            }
            if let end = query.end {
                let order = comparison(query, entry, end, bare: end.isInclusive ? -1 : 1)
                if order > 0 || (order == 0 && !end.isInclusive) { return false }
            }
            return true
        }
        entries.sort(by: compare)
        switch query.limit {
        case nil: break
        case .first(let count): entries = Array(entries.prefix(count))
        case .last(let count): entries = Array(entries.suffix(count))
        }
        return Node(children: entries.map { ($0.key, $0.node) })
    }

    private func rank(_ query: Query, _ child: Node, _ value: Node) -> Int {
        ValueOrder.compare(query.indexValue(of: child), value)
    }

    /// Compares a child with a bound; `bare`: the result of a tie with a bound that has no key.
    private func comparison(_ query: Query, _ entry: ChildMap.Entry, _ bound: Query.Bound, bare: Int) -> Int {
        var key = bound.key
        if query.index == .key {
            if case .string(let text) = bound.value.node { key = Key(text) }
        } else {
            let order = rank(query, entry.node, bound.value.node)
            if order != 0 { return order }
        }
        guard let key else { return bare }
        if key.text.hasPrefix("[MIN") { return 1 }
        if key.text.hasPrefix("[MAX") { return -1 }
        return entry.key < key ? -1 : (entry.key == key ? 0 : 1)
    }
}
