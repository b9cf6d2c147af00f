extension Node {
    /// Returns this value with its server values resolved (reference: rtdb-protocol 5).
    ///
    /// - Parameters:
    ///   - existing: the stored value at the path of this one, to which increments are added.
    ///   - timestamp: the time of the whole operation, in milliseconds since 1970.
    public func resolved(existing: Node, timestamp: Int64) -> Node {
        switch self {
        case .serverValue(let value): return value.resolve(existing: existing.withoutPriority, timestamp: timestamp)
        case .prioritized(let leaf):
            return leaf.value.resolved(existing: existing, timestamp: timestamp)
                .withPriority(leaf.priority.resolved(existing: existing.priority, timestamp: timestamp))
        case .branch(let branch):
            var entries = ContiguousArray<ChildMap.Entry>()
            entries.reserveCapacity(branch.children.count)
            for entry in branch.children {
                let node = entry.node.resolved(existing: existing.child(entry.key), timestamp: timestamp)
                entries.append(.init(key: entry.key, node: node))
            }
            let priority = branch.priority.resolved(existing: existing.priority, timestamp: timestamp)
            return .branch(Branch(priority: priority, children: ChildMap(sorted: entries)))
        default: return self
        }
    }
}

extension Node {
    /// Whether the node contains a server value that depends on the stored value.
    public var hasIncrement: Bool {
        switch self {
        case .serverValue(let value): if case .increment = value.kind { true } else { false }
        case .prioritized(let leaf): leaf.value.hasIncrement || leaf.priority.hasIncrement
        case .branch(let branch): branch.priority.hasIncrement || branch.children.contains { $0.node.hasIncrement }
        default: false
        }
    }
}

extension ServerValue {
    func resolve(existing: Node, timestamp: Int64) -> Node {
        switch kind {
        case .timestamp: .int(timestamp)
        case .increment(let delta): Self.sum(existing, delta)
        }
    }

    /// Adds integers as 64-bit integers, with a double as the result of an overflow. A stored value that is no number counts as
    /// absent.
    private static func sum(_ base: Node, _ delta: Node) -> Node {
        switch (base, delta) {
        case (.int(let first), .int(let second)):
            let (sum, overflow) = first.addingReportingOverflow(second)
            return overflow ? .double(Double(first) + Double(second)) : .int(sum)
        case (.int(let first), .double(let second)): return finite(Double(first) + second)
        case (.double(let first), .int(let second)): return finite(first + Double(second))
        case (.double(let first), .double(let second)): return finite(first + second)
        default: return delta
        }
    }

    /// Limits the sum to the range of doubles, because infinity is no JSON number.
    private static func finite(_ value: Double) -> Node {
        Node(number: value.isFinite ? value : (value < 0 ? -.greatestFiniteMagnitude : .greatestFiniteMagnitude))
    }
}
