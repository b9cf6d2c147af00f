import Tree

/// What the listeners of one query at one place are told.
final class View {
    let query: Query
    private(set) var registrations: [Registration] = []
    /// How many of them are told of children.
    private var childTellers = 0
    var isKeptSynced = false
    /// By which the server is asked for the query, where it is.
    var tag: ListenTag?
    /// What the server sent for the query alone. Nil where all of the place is known or asked for.
    var own: ServerSet?
    /// Children of `own` that changed since the view was last brought up to date; nil for all.
    var ownChanges: [Key]? = []

    /// What the query chooses from.
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
    private var window = 0..<0

    init(_ query: Query) { self.query = query }

    /// Whether `input` came from `own`.
    var usesOwn = false

    private var tellsChildren: Bool { childTellers > 0 }

    // MARK: Changing

    /// Goes over to a new input and returns what to tell.
    ///
    /// - Parameter keys: the only children that may differ; nil when any may.
    func update(to node: Node, isComplete complete: Bool, keys: [Key]?, _ events: inout [DataEvent]) {
        let wasComplete = isComplete
        isComplete = complete
        let isChanged: Bool
        let changes: ChildChanges?
        if query.selectsAll {
            isChanged = !Self.isSame(shown, node, keys)
            changes = updateAll(to: node, isChanged: isChanged, keys)
        } else {
            let chosen = updateChosen(to: node, keys)
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
    private func updateAll(to node: Node, isChanged: Bool, _ keys: [Key]?) -> ChildChanges? {
        let old = shown
        input = node
        shown = node
        guard tellsChildren else {
            order = nil
            return nil
        }
        guard isChanged else { return nil }
        var changes: ChildChanges
        if let keys, let existing = order {
            changes = ChildChanges(from: old, to: node, keys: keys, query)
            order = existing.updated(to: node, changing: keys, query)
        } else {
            changes = ChildChanges(from: old, to: node, query)
            order = ViewOrder(node, query)
        }
        window = order?.window(of: query) ?? 0..<0
        arrange(&changes)
        return changes
    }

    private func arrange(_ changes: inout ChildChanges) {
        guard let order else { return }
        let shown = shown
        let window = window
        changes.arrange(query) { order.previous(of: $0, $1, in: shown, window: window) }
    }

    /// A view that chooses.
    private func updateChosen(to node: Node, _ keys: [Key]?) -> ChildChanges {
        let old = shown
        let isPart = keys != nil && input.isBranch && node.isBranch
        let needsOrder = query.limit != nil || tellsChildren
        if !needsOrder {
            order = nil
        } else if let keys, isPart, let existing = order {
            order = existing.updated(to: node, changing: keys, query)
        } else {
            order = ViewOrder(node, query)
        }
        input = node
        window = order?.window(of: query) ?? 0..<0
        var touched: [Key]?
        if let keys, isPart { touched = choose(keys) }
        if touched == nil {
            let chosen = if case .index(let index) = order { index.select(query) } else { query.select(from: node) }
            shown = chosen == old ? old : chosen
        }
        var changes =
            touched.map { ChildChanges(from: old, to: shown, keys: $0, query) }
            ?? ChildChanges(from: old, to: shown, query)
        guard tellsChildren else { return changes }
        arrange(&changes)
        return changes
    }

    /// Brings what is shown up to date where only these children changed. Returns the children that may have come or
    /// gone, or nil when choosing anew is less work.
    private func choose(_ keys: [Key]) -> [Key]? {
        var chosen = shown
        guard query.limit != nil else {
            for key in keys {
                let child = input.child(key)
                let isIn = !child.isNull && query.admits(key, child)
                chosen = chosen.replacingChild(key, with: isIn ? child : .null)
            }
            shown = chosen
            return keys
        }
        guard case .index(let index) = order, keys.count * 4 < window.count else { return nil }
        // A change moves the edges of the window by one place at most.
        var candidates = Set(keys)
        for edge in [window.lowerBound, window.upperBound] {
            let range = max(0, edge - keys.count)..<min(index.count, edge + keys.count)
            for rank in range { candidates.insert(index.key(at: rank)) }
        }
        for key in candidates {
            let child = input.child(key)
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
    func join(_ registration: Registration, _ events: inout [DataEvent]) {
        registrations.append(registration)
        if registration.tellsChildren { childTellers += 1 }
        if registration.kinds.contains(.childAdded) {
            var changes = ChildChanges(from: .null, to: shown, query)
            prepareOrder()
            arrange(&changes)
            for change in changes.added {
                let kind = DataEvent.Kind.childAdded(change.key, previous: change.previous)
                events.append(
                    DataEvent(registration: registration.id, kind: kind, node: change.node, index: query.index))
            }
        } else if tellsChildren {
            prepareOrder()
        }
        if isComplete { tellValue(registration, &events) } else { waiting.insert(registration.id) }
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

    private func prepareOrder() {
        guard order == nil else { return }
        order = ViewOrder(input, query)
        window = order?.window(of: query) ?? 0..<0
    }
}

extension Registration {
    fileprivate var tellsChildren: Bool { !kinds.isDisjoint(with: .allChildren) }
}
