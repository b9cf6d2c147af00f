import Tree
import Wire

/// What the listeners of one query at one place are told.
final class View {
    let query: Query
    private(set) var registrations: [Registration] = []
    /// How many of them are told of children.
    private var childTellers = 0
    var isKeptSynced = false
    /// By which the server is asked for the query, where it is.
    var tag: ListenTag? { didSet { asked = .waiting(nil) } }
    /// How far the server is with that.
    var asked = Asked.waiting(nil) { didSet { held = nil } }
    /// What it has told of a listen that goes on where it was, and has not told all; nil for other listens.
    var held: [ToldChanges]?
    /// Whether the server tells all that changes of what the query selects.
    var isTold: Bool { if tag != nil, case .answered = asked { true } else { false } }
    /// What the server sent for the query alone. Nil where all of the place is known or asked for.
    var own: ServerSet?
    /// Children of `own` that changed since the view was last brought up to date; nil for all.
    var ownChanges: [Key]? = []

    /// What the query chooses from, where that is `own` under the client's writes; null where it is what is locally at the
    /// place, of which the place has the only copy.
    private(set) var input = Node.null
    /// What it has chosen.
    private(set) var shown = Node.null
    /// Whether that is all there is, so that values are told.
    private(set) var isComplete = false
    /// The value that was told last.
    private var told: Node?
    /// Who came since, and was told no value.
    private var waiting: Set<RegistrationID> = []
    /// The order of `input`, once it is needed.
    private var order: ViewOrder?
    /// - Parameter number: greater than those of all views that the place had before.
    init(_ query: Query, number: Int = 0) {
        self.query = query
        self.number = number
    }

    let number: Int
    /// Whether it chooses from `own`.
    var usesOwn = false
    /// Where the place's index finds the view; nil where the place has none.
    var indexed: IndexedView?

    private var tellsChildren: Bool { childTellers > 0 }

    // MARK: Changing

    /// Goes over to a new value of the place and adds what to tell.
    ///
    /// - Parameters:
    ///   - node: what the query chooses from.
    ///   - keys: the only children that may differ; nil when any may.
    ///   - source: whose `node` is.
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
        if let changes { tell(changes, &events) }
        guard complete, isChanged || !wasComplete else { return }
        // A value that was known by a pending write alone may have been told before the server's comes.
        let isNews = wasComplete || told.map { $0 != shown } ?? true
        for registration in registrations where isNews || waiting.contains(registration.id) {
            tellValue(registration, &events)
        }
        told = shown
        waiting = []
    }

    private func tellValue(_ registration: Registration, _ events: inout [DataEvent]) {
        guard registration.kinds.contains(.value) else { return }
        events.append(DataEvent(registration: registration.id, kind: .value, node: shown, index: query.index))
    }

    private static func isSame(_ old: Node, _ new: Node, _ keys: [Key]?) -> Bool {
        if old.isIdentical(to: new) { return true }
        guard let keys, case .branch(let before) = old, case .branch(let after) = new else { return old == new }
        guard before.priority == after.priority else { return false }
        return keys.allSatisfy { old.child($0) == new.child($0) }
    }

    /// A view that leaves nothing out. Nil where there is nothing to tell about single children.
    private func updateAll(
        to node: Node, isChanged: Bool, _ keys: [Key]?, _ source: Source
    ) -> ChildChanges? {
        let old = shown
        shown = node
        keep(node, source)
        guard tellsChildren, isChanged else { return nil }
        var changes =
            keys.map { ChildChanges(from: old, to: node, keys: $0, query) } ?? ChildChanges(from: old, to: node, query)
        arrange(&changes, order(of: node, keys, source))
        return changes
    }

    /// What the place has is not held here, too.
    private func keep(_ node: Node, _ source: Source) { input = source.isOwn ? node : .null }

    /// The order of what the query chooses from.
    ///
    /// - Parameter keys: the only children that may differ from when it was needed last; nil when any may.
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

    /// The outermost child of a limit that is reached.
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

    /// A view that chooses.
    private func updateChosen(to node: Node, _ keys: [Key]?, _ source: Source) -> ChildChanges {
        let old = shown
        let isPart = keys != nil && node.isBranch && (!source.isOwn || input.isBranch)
        let needsOrder = query.limit != nil || tellsChildren || (indexed != nil && !source.isOwn)
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
        if tellsChildren, let order, !changes.isEmpty { arrange(&changes, order) }
        return changes
    }
    /// Brings what is shown up to date where only these children changed. Returns the children that may have come or
    /// gone, or nil when choosing anew is less work.
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
        // A change moves the edges of the window by one place at most.
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

    // MARK: Telling

    private func tell(_ changes: ChildChanges, _ events: inout [DataEvent]) {
        for change in changes.removed { tell(.childRemoved, .childRemoved(change.key), change.node, &events) }
        for change in changes.added {
            tell(.childAdded, .childAdded(change.key, previous: change.previous), change.node, &events)
        }
        for change in changes.moved {
            tell(.childMoved, .childMoved(change.key, previous: change.previous), change.node, &events)
        }
        for change in changes.changed {
            tell(.childChanged, .childChanged(change.key, previous: change.previous), change.node, &events)
        }
    }

    private func tell(_ wanted: EventKinds, _ kind: DataEvent.Kind, _ node: Node, _ events: inout [DataEvent]) {
        for registration in registrations where registration.kinds.contains(wanted) {
            events.append(DataEvent(registration: registration.id, kind: kind, node: node, index: query.index))
        }
    }

    /// What somebody is told who joins those who listen already.
    ///
    /// - Parameter local: what is locally at the place.
    func join(_ registration: Registration, _ local: Node, _ source: Source, _ events: inout [DataEvent]) {
        registrations.append(registration)
        if registration.tellsChildren { childTellers += 1 }
        if registration.kinds.contains(.childAdded), shown.isBranch {
            var changes = ChildChanges(from: .null, to: shown, query)
            arrange(&changes, order(of: source.isOwn ? input : local, [], source))
            for change in changes.added {
                let kind = DataEvent.Kind.childAdded(change.key, previous: change.previous)
                events.append(
                    DataEvent(registration: registration.id, kind: kind, node: change.node, index: query.index))
            }
        }
        if isComplete { tellValue(registration, &events) } else { waiting.insert(registration.id) }
    }

    /// Whose the value is that a query chooses from.
    enum Source {
        /// What the server has sent of the query alone, under the client's writes.
        case own
        /// What is locally at the place.
        case local(SharedOrders)

        var isOwn: Bool { if case .own = self { true } else { false } }
    }

    /// Somebody is told nothing more.
    func leave(_ id: RegistrationID) {
        guard let index = registrations.firstIndex(where: { $0.id == id }) else { return }
        if registrations.remove(at: index).tellsChildren { childTellers -= 1 }
    }

    /// Nobody is told anything more. Returns who was.
    func leaveAll() -> [Registration] {
        defer {
            registrations = []
            childTellers = 0
        }
        return registrations
    }
}

extension Registration {
    fileprivate var tellsChildren: Bool { !kinds.isDisjoint(with: .allChildren) }
}

/// What the server has sent of a filtered query: whole children, as many as the query selects.
struct ServerSet {
    /// Without the node's own priority.
    var node = Node.null
    /// Whether the server has sent all that the query selects.
    var isComplete = false
    /// As of which entry that is, where the server has said so.
    var mark: LogMark?
    /// Whether it has taken on writes that the server has accepted: it may be more than the query selects, or less.
    var isAssumed = false

    /// Takes a value at a place below the query's. What would change a child that isn't there is left out, as such a
    /// child wouldn't be complete. Returns the child that may have changed.
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

    /// A child was brought up to date by another listen: the set is as of one entry only if that is no later.
    mutating func mix(_ other: LogMark?) {
        guard let other, let own = mark, other.seq <= own.seq else {
            mark = nil
            return
        }
    }

    /// Drops what is beyond the query's limit. Returns what went.
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
