import Tree
import Wire

/// The state of one query at one path, and the events of its listeners.
final class View {
    let query: Query
    private(set) var registrations: [Registration] = []
    /// The number of registrations that receive child events.
    private var childTellers = 0
    var isKeptSynced = false
    /// The tag of the query's own listen, if it has one.
    var tag: ListenTag? { didSet { asked = .waiting(nil) } }
    /// The state of the query's own listen at the server.
    var asked = ListenState.waiting(nil) { didSet { held = nil } }
    /// The changes that the server has sent for a resuming listen that is not complete yet; nil for other listens.
    var held: [ReportedChanges]?
    /// Whether the server sends all changes of the data that the query selects.
    var isAnswered: Bool { if tag != nil, case .answered = asked { true } else { false } }
    /// The data that the server sent for this query alone. Nil if the whole value of the path is known or requested.
    var own: ServerSet?
    /// Children of `own` that changed since the view was last updated; nil for all.
    var ownChanges: [Key]? = []

    /// The value from which the query selects, if that is `own` under the client's writes. Null if it is the path's
    /// local value, of which `SyncPoint` has the only copy.
    private(set) var input = Node.null
    /// The selected data.
    private(set) var shown = Node.null
    /// Whether `shown` is complete, so that value events are emitted.
    private(set) var isComplete = false
    /// The value of the last value event.
    private var emitted: Node?
    /// Registrations added after the last value event, which have received none.
    private var waiting: Set<RegistrationID> = []
    /// The order of `input`, once needed.
    private var order: ViewOrder?
    /// - Parameter number: greater than those of all earlier views at the path.
    init(_ query: Query, number: Int = 0) {
        self.query = query
        self.number = number
    }

    let number: Int
    /// Whether the view selects from `own`.
    var usesOwn = false
    /// The view's entry in the path's index; nil if the path has none.
    var indexed: IndexedView?

    private var emitsChildren: Bool { childTellers > 0 }

    // MARK: Changing

    /// Updates the view to a new value of the path, and adds its events.
    ///
    /// - Parameters:
    ///   - node: the value from which the query selects.
    ///   - keys: the only children that may differ; nil if any may.
    ///   - source: the source of `node`.
    func update(
        to node: Node, isComplete complete: Bool, keys: [Key]?, _ source: Source, _ events: inout [DataEvent]
    ) {
        let wasComplete = isComplete
        isComplete = complete
        let isChanged: Bool
        let changes: ChildChanges?
        if query.selectsAll {
            isChanged = !Self.isSame(shown, node, keys)
            changes = updateAll(to: node, isChanged: isChanged, keys, source)
        } else {
            let chosen = updateChosen(to: node, keys, source)
            isChanged = !chosen.isEmpty
            changes = chosen
        }
        if let changes { emit(changes, &events) }
        guard complete, isChanged || !wasComplete else { return }
        // A value that was known only from a pending write may already have been reported before the server's arrives.
        let isNews = wasComplete || emitted.map { $0 != shown } ?? true
        for registration in registrations where isNews || waiting.contains(registration.id) {
            emitValue(registration, &events)
        }
        emitted = shown
        waiting = []
    }

    private func emitValue(_ registration: Registration, _ events: inout [DataEvent]) {
        guard registration.kinds.contains(.value) else { return }
        events.append(DataEvent(registration: registration.id, kind: .value, node: shown, index: query.index))
    }

    private static func isSame(_ old: Node, _ new: Node, _ keys: [Key]?) -> Bool {
        if old.isIdentical(to: new) { return true }
        guard let keys, case .branch(let before) = old, case .branch(let after) = new else { return old == new }
        guard before.priority == after.priority else { return false }
        return keys.allSatisfy { old.child($0) == new.child($0) }
    }

    /// Updates a view that selects everything. Returns nil if there are no child events.
    private func updateAll(
        to node: Node, isChanged: Bool, _ keys: [Key]?, _ source: Source
    ) -> ChildChanges? {
        let old = shown
        shown = node
        keep(node, source)
        guard emitsChildren, isChanged else { return nil }
        var changes =
            keys.map { ChildChanges(from: old, to: node, keys: $0, query) } ?? ChildChanges(from: old, to: node, query)
        arrange(&changes, order(of: node, keys, source))
        return changes
    }

    /// A value that `SyncPoint` holds is not held here, too.
    private func keep(_ node: Node, _ source: Source) { input = source.isOwn ? node : .null }

    /// Returns the order of the value from which the query selects.
    ///
    /// - Parameter keys: the only children that may differ since the last call; nil if any may.
    private func order(of node: Node, _ keys: [Key]?, _ source: Source) -> ViewOrder {
        let isRanked = query.limit != nil || (indexed != nil && !source.isOwn && query.index != .key)
        if case .local(let orders) = source {
            order = nil
            return orders.order(of: query, in: node, isRanked: isRanked)
        }
        let made =
            if let keys, let order {
                order.updated(to: node, changing: keys, query.index, isRanked: isRanked)
            } else {
                ViewOrder(node, query.index, isRanked: isRanked)
            }
        order = made
        return made
    }

    /// Returns the outermost child of a limit that is reached.
    private func edge(_ order: ViewOrder) -> OrderRange? {
        guard case .index(let index) = order, let limit = query.limit else { return nil }
        let window = index.ranks(of: query)
        let key: Key
        switch limit {
        case .first(let count):
            guard count > 0, window.count >= count else { return nil }
            key = index.key(at: window.upperBound - 1)
        case .last(let count):
            guard count > 0, window.count >= count else { return nil }
            key = index.key(at: window.lowerBound)
        }
        return OrderRange(query.indexValue(of: shown.child(key)), key)
    }

    private func arrange(_ changes: inout ChildChanges, _ order: ViewOrder) {
        let shown = shown
        let window = order.window(of: query)
        changes.arrange(query) { order.previous(of: $0, $1, in: shown, window: window) }
    }

    /// Updates a view that selects a part.
    private func updateChosen(to node: Node, _ keys: [Key]?, _ source: Source) -> ChildChanges {
        let old = shown
        let isPart = keys != nil && node.isBranch && (!source.isOwn || input.isBranch)
        let needsOrder = query.limit != nil || emitsChildren || (indexed != nil && !source.isOwn)
        let order = needsOrder ? order(of: node, isPart ? keys : nil, source) : nil
        if order == nil { self.order = nil }
        keep(node, source)
        var touched: [Key]?
        if let keys, isPart { touched = choose(keys, from: node, order) }
        if touched == nil {
            let chosen = if case .index(let index) = order { index.select(query) } else { query.select(from: node) }
            shown = chosen == old ? old : chosen
        }
        indexed?.edge = source.isOwn ? nil : order.flatMap(edge)
        var changes =
            touched.map { ChildChanges(from: old, to: shown, keys: $0, query) }
            ?? ChildChanges(from: old, to: shown, query)
        if emitsChildren, let order, !changes.isEmpty { arrange(&changes, order) }
        return changes
    }
    /// Updates the selection after changes of these children only. Returns the children that may have entered or left
    /// it, or nil if a new selection is cheaper.
    private func choose(_ keys: [Key], from node: Node, _ order: ViewOrder?) -> [Key]? {
        var chosen = shown
        guard query.limit != nil else {
            for key in keys {
                let child = node.child(key)
                let isIn = !child.isNull && query.admits(key, child)
                chosen = chosen.replacingChild(key, with: isIn ? child : .null)
            }
            shown = chosen
            return keys
        }
        guard case .index(let index) = order else { return nil }
        let window = index.ranks(of: query)
        guard keys.count * 4 < window.count else { return nil }
        // Each changed child moves the edges of the window by at most one rank.
        var candidates = Set(keys)
        for edge in [window.lowerBound, window.upperBound] {
            let range = max(0, edge - keys.count)..<min(index.count, edge + keys.count)
            for rank in range { candidates.insert(index.key(at: rank)) }
        }
        for key in candidates {
            let child = node.child(key)
            let isIn = !child.isNull && window.contains(index.rank(of: key, child))
            chosen = chosen.replacingChild(key, with: isIn ? child : .null)
        }
        shown = chosen
        return Array(candidates)
    }

    // MARK: Events

    private func emit(_ changes: ChildChanges, _ events: inout [DataEvent]) {
        for change in changes.removed { emit(.childRemoved, .childRemoved(change.key), change.node, &events) }
        for change in changes.added {
            emit(.childAdded, .childAdded(change.key, previous: change.previous), change.node, &events)
        }
        for change in changes.moved {
            emit(.childMoved, .childMoved(change.key, previous: change.previous), change.node, &events)
        }
        for change in changes.changed {
            emit(.childChanged, .childChanged(change.key, previous: change.previous), change.node, &events)
        }
    }

    private func emit(_ wanted: EventKinds, _ kind: DataEvent.Kind, _ node: Node, _ events: inout [DataEvent]) {
        for registration in registrations where registration.kinds.contains(wanted) {
            events.append(DataEvent(registration: registration.id, kind: kind, node: node, index: query.index))
        }
    }

    /// Adds a registration to the present ones, with its first events.
    ///
    /// - Parameter local: the local value of the path.
    func join(_ registration: Registration, _ local: Node, _ source: Source, _ events: inout [DataEvent]) {
        registrations.append(registration)
        if registration.emitsChildren { childTellers += 1 }
        if registration.kinds.contains(.childAdded), shown.isBranch {
            var changes = ChildChanges(from: .null, to: shown, query)
            arrange(&changes, order(of: source.isOwn ? input : local, [], source))
            for change in changes.added {
                let kind = DataEvent.Kind.childAdded(change.key, previous: change.previous)
                events.append(
                    DataEvent(registration: registration.id, kind: kind, node: change.node, index: query.index))
            }
        }
        if isComplete { emitValue(registration, &events) } else { waiting.insert(registration.id) }
    }

    /// The source of the value from which a query selects.
    enum Source {
        /// The data that the server has sent for this query alone, under the client's writes.
        case own
        /// The local value of the path.
        case local(SharedOrders)

        var isOwn: Bool { if case .own = self { true } else { false } }
    }

    /// Removes a registration; it receives no more events.
    func leave(_ id: RegistrationID) {
        guard let index = registrations.firstIndex(where: { $0.id == id }) else { return }
        if registrations.remove(at: index).emitsChildren { childTellers -= 1 }
    }

    /// Removes all registrations and returns them.
    func leaveAll() -> [Registration] {
        defer {
            registrations = []
            childTellers = 0
        }
        return registrations
    }
}

extension Registration {
    fileprivate var emitsChildren: Bool { !kinds.isDisjoint(with: .allChildren) }
}

/// The server's data for a filtered query: complete children, as many as the query selects.
struct ServerSet {
    /// Without the node's own priority.
    var node = Node.null
    /// Whether the server has sent everything that the query selects.
    var isComplete = false
    /// The log position of the data, if the server has sent it.
    var mark: LogMark?
    /// Whether it includes accepted writes: it may then contain more or less than the query's selection.
    var isAssumed = false

    /// Applies a value below the query's path. Ignores changes inside a missing child, because such a child would not
    /// be complete. Returns the child that may have changed.
    mutating func apply(_ value: Node, at path: Path, of query: Query) -> Key? {
        guard path.depth > 0, path[0] != .priority else { return nil }
        let key = path[0]
        if path.depth == 1 {
            node = node.replacingChild(key, with: value)
        } else {
            guard !node.child(key).isNull else { return nil }
            node = node.replacing(path, with: value)
        }
        let child = node.child(key)
        if !child.isNull, !query.admits(key, child) { node = node.replacingChild(key, with: .null) }
        return key
    }

    /// Records that another listen updated a child: the set keeps its log position only if the other one is not later.
    mutating func mix(_ other: LogMark?) {
        guard let other, let own = mark, other.seq <= own.seq else {
            mark = nil
            return
        }
    }

    /// Removes children beyond the query's limit and returns their keys.
    mutating func trim(to query: Query) -> [Key] {
        guard let limit = query.limit else { return [] }
        let count =
            switch limit {
            case .first(let count), .last(let count): count
            }
        guard node.childCount > count, case .branch(let branch) = node else { return [] }
        let selected = query.select(from: node)
        defer { node = selected }
        return branch.children.filter { selected.child($0.key).isNull }.map(\.key)
    }
}
