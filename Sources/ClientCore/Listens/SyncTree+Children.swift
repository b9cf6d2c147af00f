import Tree

/// What filtered queries know of the places below them: each child that the server has sent of one is whole.
extension SyncTree {
    /// A child that a filtered query above the path holds, and its depth; nil where none does.
    func childOfQuery(above path: Path) -> (node: Node, depth: Int)? {
        var place = root
        for (depth, key) in path.keys.enumerated() where key != .priority {
            let views = place.index.map { $0.holder(of: key).map { [$0] } ?? [] } ?? place.views
            for view in views {
                guard let child = view.own?.node.child(key), !child.isNull else { continue }
                return (child, depth + 1)
            }
            guard let below = place.children[key] else { return nil }
            place = below
        }
        return nil
    }

    /// Fills in what a filtered query above knows of a new view's place: a list that was loaded opens its items without
    /// asking. The item's own listen corrects what has become of it since. Returns whether there was anything.
    func readQueriesAbove(_ view: View, _ place: Place) -> Bool {
        guard let (child, depth) = childOfQuery(above: place.path) else { return false }
        let node = child[place.path.dropFirst(depth)]
        if view.query.selectsAll {
            setKnown(node, at: place, nil)
        } else {
            view.own = ServerSet(node: view.query.select(from: node).withoutPriority, isComplete: true)
        }
        return true
    }
}
