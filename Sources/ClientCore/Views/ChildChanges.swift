import Tree

/// The differences between a view's children and those of its previous events.
struct ChildChanges {
    struct Change {
        let key: Key
        let node: Node
        var previous: Key?
    }

    var removed: [Change] = []
    var added: [Change] = []
    var moved: [Change] = []
    var changed: [Change] = []

    var isEmpty: Bool { removed.isEmpty && added.isEmpty && changed.isEmpty }

    /// Compares only these children.
    init(from old: Node, to new: Node, keys: [Key], _ query: Query) {
        for key in keys { note(key, old.child(key), new.child(key), query) }
    }

    /// Compares all children.
    init(from old: Node, to new: Node, _ query: Query) {
        switch (old, new) {
        case (.branch(let before), .branch(let after)):
            after.children.forEachDifference(from: before.children) { first, second in
                guard let key = (first ?? second)?.key else { return }
                note(key, first?.node ?? .null, second?.node ?? .null, query)
            }
        case (.branch(let before), _):
            for entry in before.children { removed.append(Change(key: entry.key, node: entry.node)) }
        case (_, .branch(let after)):
            for entry in after.children { added.append(Change(key: entry.key, node: entry.node)) }
        default: break
        }
    }

    private mutating func note(_ key: Key, _ old: Node, _ new: Node, _ query: Query) {
        if old.isIdentical(to: new) { return }
        if old.isNull {
            added.append(Change(key: key, node: new))
        } else if new.isNull {
            removed.append(Change(key: key, node: old))
        } else if old != new {
            changed.append(Change(key: key, node: new))
            if query.index != .key, ValueOrder.compare(query.indexValue(of: old), query.indexValue(of: new)) != 0 {
                moved.append(Change(key: key, node: new))
            }
        }
    }

    /// Sorts each kind by the view's order, and sets the preceding child of each change.
    mutating func arrange(_ query: Query, previous: (Key, Node) -> Key?) {
        Self.sort(&removed, query)
        Self.sort(&added, query)
        Self.sort(&moved, query)
        Self.sort(&changed, query)
        Self.fill(&added, previous)
        Self.fill(&moved, previous)
        Self.fill(&changed, previous)
    }

    private static func sort(_ changes: inout [Change], _ query: Query) {
        guard changes.count > 1 else { return }
        let byKey = query.index == .key
        changes.sort {
            let order =
                byKey ? 0 : ValueOrder.compare(query.indexValue(of: $0.node), query.indexValue(of: $1.node))
            return order == 0 ? $0.key < $1.key : order < 0
        }
    }

    private static func fill(_ changes: inout [Change], _ previous: (Key, Node) -> Key?) {
        for index in changes.indices { changes[index].previous = previous(changes[index].key, changes[index].node) }
    }
}
