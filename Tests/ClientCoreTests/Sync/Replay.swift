import Tree

@testable import ClientCore

/// The value that a listener's events add up to.
struct Replay {
    let registration: Registration
    private(set) var children: [Key: Node] = [:]
    private(set) var value: Node?

    init(_ registration: Registration) { self.registration = registration }

    private var query: Query { registration.spec.query }

    /// Applies events. Returns the errors found in them.
    ///
    /// - Parameter isOneStep: false if the events belong to several successive changes.
    mutating func take(_ events: [DataEvent], isOneStep: Bool = true) -> [String] {
        var problems: [String] = []
        var lastKind = 0
        var hasValue = false
        for event in events {
            let kind = Self.rank(event.kind)
            if kind < lastKind, isOneStep { problems.append("\(event.kind) comes too late") }
            lastKind = kind
            switch event.kind {
            case .childRemoved(let key):
                if children.removeValue(forKey: key) != event.node { problems.append("removed \(key)") }
            case .childAdded(let key, _):
                if children.updateValue(event.node, forKey: key) != nil { problems.append("added \(key) twice") }
            case .childMoved(let key, _):
                if children[key] == nil { problems.append("moved \(key)") }
            case .childChanged(let key, _):
                if let old = children.updateValue(event.node, forKey: key), old != event.node { continue }
                problems.append("changed \(key) for nothing")
            case .value:
                if value == event.node { problems.append("value told twice") }
                if hasValue, isOneStep { problems.append("two values in one step") }
                hasValue = true
                value = event.node
                problems += checkValue()
            }
        }
        return problems + (isOneStep ? checkOrder(events) : [])
    }

    private static func rank(_ kind: DataEvent.Kind) -> Int {
        switch kind {
        case .childRemoved: 0
        case .childAdded: 1
        case .childMoved: 2
        case .childChanged: 3
        case .value: 4
        }
    }

    /// The children's keys in the query's order.
    private var keys: [Key] {
        children.sorted { left, right in
            let order = ValueOrder.compare(query.indexValue(of: left.value), query.indexValue(of: right.value))
            return order == 0 ? left.key < right.key : order < 0
        }.map(\.key)
    }

    private func checkOrder(_ events: [DataEvent]) -> [String] {
        guard !events.isEmpty else { return [] }
        let keys = keys
        return events.compactMap { event in
            switch event.kind {
            case .childAdded(let key, let previous), .childMoved(let key, let previous),
                .childChanged(let key, let previous):
                guard let index = keys.firstIndex(of: key) else { return "\(key) isn't there" }
                return previous == (index == 0 ? nil : keys[index - 1])
                    ? nil : "\(key) is not behind \(previous as Any)"
            case .childRemoved, .value: return nil
            }
        }
    }

    /// Checks that a reported value consists of the children reported before it.
    private func checkValue() -> [String] {
        guard let value, registration.kinds.contains(.allChildren) else { return [] }
        return Node(children: children.map { ($0.key, $0.value) }) == (value.isBranch ? value.withoutPriority : .null)
            ? [] : ["the value is not what its children are"]
    }

    /// Compares with the expected value.
    func check(_ expected: Node) -> [String] {
        var problems: [String] = []
        // The node's own priority is not part of a query's selection.
        let isSame =
            registration.spec.loadsAllData
            ? value == expected : value?.withoutPriority == expected.withoutPriority
        if registration.kinds.contains(.value), !isSame {
            problems.append("shows \(value.map(SyncModel.text) ?? "no value")")
        }
        if registration.kinds.contains(.allChildren),
            Node(children: children.map { ($0.key, $0.value) })
                != (expected.isBranch ? expected.withoutPriority : .null)
        {
            let shown = Node(children: children.map { ($0.key, $0.value) })
            problems.append("shows the children \(SyncModel.text(shown))")
        }
        return problems
    }
}
