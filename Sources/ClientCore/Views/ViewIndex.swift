import Tree

/// Finds the views at one path that a child's change concerns, if the path has many queries: by the ranges of their
/// orders, and by the children that the server has sent for each.
final class ViewIndex {
    private var ranges: [Query.Index: RangeTree<View>] = [:]
    private var byQuery: [Query: View] = [:]
    /// The views that select everything.
    private var all: [View] = []
    /// The views by the children that they have in the server's data for their query, or in the client's writes over
    /// it. In the order in which the views were added.
    private var holders: [Key: [View]] = [:]
    /// The views whose own data has changed since their last update.
    private var changed: [View] = []

    init(_ views: [View]) {
        for view in views {
            add(view)
            settle(view, nil)
        }
    }

    subscript(query: Query) -> View? { byQuery[query] }

    /// Whether there is a view with this order.
    func has(_ index: Query.Index) -> Bool {
        ranges[index] != nil || all.contains { $0.query.index == index }
    }

    func add(_ view: View) {
        byQuery[view.query] = view
        let indexed = IndexedView(view.query)
        view.indexed = indexed
        if view.query.selectsAll { return all.append(view) }
        insert(view, indexed, at: indexed.bounds)
    }

    func remove(_ view: View) {
        byQuery[view.query] = nil
        all.removeAll { $0 === view }
        changed.removeAll { $0 === view }
        guard let indexed = view.indexed else { return }
        insert(view, indexed, at: nil)
        hold(view, indexed, .null, .null, nil)
        view.indexed = nil
    }

    /// Records that the view's own data has changed.
    func note(_ view: View) {
        if changed.last !== view { changed.append(view) }
    }

    // MARK: Updating

    /// Records that a view was updated. `keys`: the only children that may differ; nil if any may.
    func settle(_ view: View, _ keys: [Key]?) {
        guard let indexed = view.indexed, !view.query.selectsAll else { return }
        insert(view, indexed, at: indexed.reach(view.query))
        hold(view, indexed, view.own?.node ?? .null, view.input, view.usesOwn ? keys : nil)
    }

    private func insert(_ view: View, _ indexed: IndexedView, at range: OrderRange?) {
        let old = indexed.range
        if let old, let range, old.isSame(as: range) { return }
        let index = view.query.index
        if let old { ranges[index]?.remove(view.number, at: old) }
        if let range {
            let tree = ranges[index] ?? RangeTree()
            ranges[index] = tree
            tree.insert(view, view.number, at: range)
        }
        if ranges[index]?.isEmpty ?? false { ranges[index] = nil }
        indexed.range = range
    }

    private func hold(_ view: View, _ indexed: IndexedView, _ own: Node, _ input: Node, _ keys: [Key]?) {
        let (oldOwn, oldInput) = (indexed.own, indexed.input)
        indexed.own = own
        indexed.input = input
        func settle(_ key: Key) {
            let did = !oldOwn.child(key).isNull || !oldInput.child(key).isNull
            let does = !own.child(key).isNull || !input.child(key).isNull
            guard did != does else { return }
            let position = Self.position(of: view, in: holders[key] ?? [])
            if does {
                holders[key, default: []].insert(view, at: position)
            } else {
                holders[key]?.remove(at: position)
                if holders[key]?.isEmpty ?? false { holders[key] = nil }
            }
        }
        if let keys { return keys.forEach(settle) }
        var differing: Set<Key> = []
        Node.forEachDifference(oldOwn, own) { differing.insert($0) }
        Node.forEachDifference(oldInput, input) { differing.insert($0) }
        differing.forEach(settle)
    }

    /// Returns the index of a view among views sorted by their numbers, or the index at which to insert it.
    private static func position(of view: View, in views: [View]) -> Int {
        var low = 0
        var high = views.count
        while low < high {
            let middle = (low + high) / 2
            if views[middle].number < view.number { low = middle + 1 } else { high = middle }
        }
        return low
    }

    // MARK: Finding

    /// A change of one child.
    struct ChildChange {
        let key: Key
        /// The local values before and after the change.
        let old: Node
        let new: Node
        /// The client's write there, if it is a whole value; for views that have not been sent the child.
        let written: Node
    }

    /// Returns the views that the changes concern, each with the children concerned, in the order in which the views
    /// were added.
    ///
    /// - Parameter hasOwn: whether any view selects from its own data.
    func concerned(by changes: [ChildChange], hasOwn: Bool) -> [(view: View, keys: [Key])] {
        var found: [View] = []
        func add(_ view: View, _ key: Key?) {
            guard let indexed = view.indexed else { return }
            if indexed.keys == nil {
                indexed.keys = []
                found.append(view)
            }
            if let key, indexed.keys?.last != key { indexed.keys?.append(key) }
        }
        for view in changed { add(view, nil) }
        changed = []
        for change in changes {
            let key = change.key
            for view in all { add(view, key) }
            if hasOwn { for view in holders[key] ?? [] { add(view, key) } }
            let isLocalSame = change.old.isIdentical(to: change.new)
            for (index, tree) in ranges {
                func find(_ child: Node) {
                    guard !child.isNull else { return }
                    let value = Query(index: index).indexValue(of: child)
                    tree.forEach(overlapping: OrderRange(value, key)) { add($0, key) }
                }
                if !isLocalSame {
                    find(change.old)
                    find(change.new)
                }
                if hasOwn { find(change.written) }
            }
        }
        found.sort { $0.number < $1.number }
        return found.map { view in
            defer { view.indexed?.keys = nil }
            return (view, view.indexed?.keys ?? [])
        }
    }

    /// Returns a view that was sent the child.
    func holder(of key: Key) -> View? {
        holders[key]?.first { !($0.own?.node.child(key).isNull ?? true) }
    }

    /// Returns other views of the same order with children that the view may select.
    func overlapping(_ view: View) -> [View] {
        var found: [View] = []
        let bounds = OrderRange(boundsOf: view.query)
        ranges[view.query.index]?.forEach(overlapping: bounds) { if $0 !== view { found.append($0) } }
        return found.sorted { $0.number < $1.number }
    }
}

/// The ranges and children by which the index finds a view.
final class IndexedView {
    /// The range that the query's bounds admit.
    fileprivate let bounds: OrderRange
    fileprivate var range: OrderRange?
    fileprivate var own = Node.null
    fileprivate var input = Node.null
    /// During a search: the children by which the view was found.
    fileprivate var keys: [Key]?
    /// The outermost child of a limit that is reached: changes beyond it do not concern the shown value.
    var edge: OrderRange?

    fileprivate init(_ query: Query) { bounds = OrderRange(boundsOf: query) }

    /// Returns the range of the query's order in which changes may concern the shown value.
    fileprivate func reach(_ query: Query) -> OrderRange {
        guard let edge else { return bounds }
        var reach = bounds
        if case .first = query.limit { reach.high = edge.high } else { reach.low = edge.low }
        return reach
    }
}

extension Node {
    /// Calls `body` for each child in which two values may differ.
    static func forEachDifference(_ old: Node, _ new: Node, _ body: (Key) -> Void) {
        switch (old, new) {
        case (.branch(let before), .branch(let after)):
            after.children.forEachDifference(from: before.children) { first, second in
                if let key = (first ?? second)?.key { body(key) }
            }
        case (.branch(let one), _), (_, .branch(let one)): for entry in one.children { body(entry.key) }
        default: break
        }
    }
}
