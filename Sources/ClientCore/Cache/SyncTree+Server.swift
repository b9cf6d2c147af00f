public import Tree
public import Wire

/// The server's data.
extension SyncTree {
    /// The server has set a place.
    ///
    /// - Parameters:
    ///   - tag: of the listen that the data belongs to; nil for default listens.
    ///   - mark: as of which entry all data of that listen is with it; nil where the server did not say, or where it is not
    ///     the server's at all.
    public func applyServer(_ value: Node, at path: Path, tag: ListenTag?, mark: LogMark? = nil) -> SyncEffects {
        let changes = [Change(path: .root, value: value)]
        return apply(ToldChanges(changes: changes, path: path, isMerge: false, mark: mark), tag)
    }

    /// The server has set several places below the path, relative to it, at once.
    public func applyServer(
        _ changes: [Change], at path: Path, tag: ListenTag?, mark: LogMark? = nil
    ) -> SyncEffects {
        apply(ToldChanges(changes: changes, path: path, isMerge: true, mark: mark), tag)
    }

    private func apply(_ told: ToldChanges, _ tag: ListenTag?) -> SyncEffects {
        if hold(told, tag) { return SyncEffects() }
        var touched = Touched.nothing
        guard let tag else {
            heard(at: told.path, &touched)
            take(told, &touched)
            return refresh(touched)
        }
        guard let (place, view) = tagged[tag], place.path.contains(told.path) else { return SyncEffects() }
        touched = releaseCovers(of: place)
        heard(view, at: place.path)
        take(told, view, at: place)
        return refresh(view, at: place, touched)
    }

    /// The client supposes that this is there from now on, until the server says what is. It is nobody's answer.
    public func suppose(_ value: Node, at path: Path) -> SyncEffects {
        var touched = Touched.nothing
        take(
            ToldChanges(changes: [Change(path: .root, value: value)], path: path, isMerge: false, mark: nil), &touched)
        return refresh(touched)
    }

    /// The server has sent all that a listen selects.
    ///
    /// - Parameter mark: as of which entry; nil where that is what the data said, or not known.
    public func completeListen(_ spec: QuerySpec, tag: ListenTag?, mark: LogMark? = nil) -> SyncEffects {
        if let tag {
            guard let (place, view) = tagged[tag] else { return SyncEffects() }
            // The server had nothing new: what the query selects of what was there is its own from now on.
            let touched = releaseCovers(of: place)
            let held = view.held ?? []
            heard(view, at: place.path)
            for told in held { takeInMemory(told, view, at: place) }
            let own = view.own ?? ServerSet()
            let isNews = !own.isComplete || view.ownChanges == nil || !held.isEmpty
            view.own = own
            view.own?.isComplete = true
            if let mark { view.own?.mark = mark }
            let selected = view.query.select(from: own.node)
            keep(selected, changedBy: held, of: spec)
            cache?.complete(spec, children: selected.childKeys)
            cache?.confirm(selected, of: spec)
            if let mark { cache?.note(mark, of: spec) }
            return isNews ? refresh(view, at: place, touched) : refresh(touched)
        }
        let place = root.find(spec.path.keys[...])
        var touched = Touched.nothing
        if let place, place.isListening {
            let held = place.held ?? []
            heard(at: spec.path, &touched)
            for told in held { take(told, &touched) }
        }
        cache?.complete(spec)
        if let mark { cache?.note(mark, of: spec) }
        guard let place, place.isListening else { return SyncEffects() }
        if let mark, place.known != nil { place.mark = mark }
        if let node = serverValue(at: spec.path) {
            cache?.confirm(node, of: spec)
            return refresh(touched)
        }
        setKnown(serverValue(of: QuerySpec(path: spec.path)).node, at: place, mark)
        return refresh(Touched(place.path))
    }

    // MARK: Data of default listens

    private func take(_ told: ToldChanges, _ touched: inout Touched) {
        if told.isMerge {
            cache?.applyServer(told.changes, at: told.path, of: QuerySpec(path: told.path))
        } else if let change = told.changes.first {
            cache?.applyServer(change.value, at: told.path, of: QuerySpec(path: told.path))
        }
        note(told.mark, at: told.path)
        for change in told.changes {
            absorb(change.value, at: told.path.appending(change.path), isMerge: told.isMerge, told.mark, &touched)
        }
    }

    /// Takes a value for all who listen at, above or below its place.
    func absorb(
        _ value: Node, at path: Path, isMerge: Bool, _ mark: LogMark?, _ touched: inout Touched
    ) {
        var above = root
        var depth = 0
        // From the root down to the place: what is known as a whole changes; filtered queries take single children.
        while true {
            if let known = above.known {
                let below = path.dropFirst(depth)
                let changed = known.replacing(below, with: value)
                above.known = changed
                above.mark = mark
                touched.insert(above.path.appending(Self.top(of: below, known, changed)))
                return
            }
            guard depth < path.depth else { break }
            let below = path.dropFirst(depth)
            let isSettled = !above.views.isEmpty && isListening(below, above)
            for view in above.views {
                guard let own = view.own, !isSettled || !own.isComplete || view.tag == nil else { continue }
                guard !isMerge || own.isComplete || !own.node.isNull else { continue }
                if take(value, at: below, view, above) {
                    view.own?.mix(mark)
                    touched.insert(path)
                }
            }
            guard let next = above.children[path[depth]] else { break }
            above = next
            depth += 1
        }
        guard !path.namesPriority else { return }
        if depth == path.depth {
            if above.views.isEmpty, !isKnownChild(above) {
                settleBelow(above, mark) { value[$0] }
            } else {
                setKnown(value, at: above, mark)
            }
            touched.insert(path)
        } else if depth == path.depth - 1, above.hasDefault, !isMerge || above.knowsChildren {
            // A child of what is not known as a whole.
            setKnown(value, at: above.descend(path.dropFirst(depth)), mark)
            touched.insert(path)
        }
    }

    /// Whether somebody listens on the way to a path or at it. What a query there has been sent completely is then changed
    /// by its own listen alone: the server tells one listen of several entries before it tells another of the same ones,
    /// so that these may be older than what the query has. As the query is told changes only, what they let in or take out
    /// would stay so.
    private func isListening(_ path: Path, _ place: Place) -> Bool {
        var place = place
        for key in path.keys {
            guard let below = place.children[key] else { return false }
            if below.isListening { return true }
            place = below
        }
        return false
    }

    /// Whether the place is of use to somebody who listens to its parent, which isn't known as a whole.
    private func isKnownChild(_ place: Place) -> Bool { place.parent?.hasDefault ?? false }

    /// The highest place on the way whose kind a change has altered: a leaf that became a branch, a branch that
    /// vanished. What the client has written there is laid over something else from then on.
    private static func top(of path: Path, _ old: Node, _ new: Node) -> Path {
        var before = old
        var after = new
        for (depth, key) in path.keys.enumerated() {
            if key == .priority || !before.isBranch || !after.isBranch { return path.prefix(depth) }
            before = before.child(key)
            after = after.child(key)
        }
        return path
    }

    /// The place's whole value is known from now on, and read here by all below.
    func setKnown(_ value: Node, at place: Place, _ mark: LogMark?) {
        place.known = value
        place.mark = mark
        for view in place.views { view.own = nil }
        place.forEachBelow { below in
            below.known = nil
            below.mark = nil
            for view in below.views { view.own = nil }
            return true
        }
        dropEmpty(below: place)
    }

    /// Gives the topmost places below, which somebody listens to, their own values.
    private func settleBelow(_ place: Place, _ mark: LogMark?, _ value: (Path) -> Node) {
        var listening: [Place] = []
        place.forEachBelow { below in
            guard below.views.isEmpty else {
                listening.append(below)
                return false
            }
            return true
        }
        for below in listening { setKnown(value(below.path.relative(to: place.path)), at: below, mark) }
    }

    private func dropEmpty(below place: Place) {
        var empty: [Place] = []
        place.forEachBelow { below in
            if below.children.isEmpty, below.views.isEmpty, below.known == nil { empty.append(below) }
            return true
        }
        for below in empty { below.prune() }
    }

    /// A place that was known as a whole no longer is: those below who listen keep their part.
    func release(_ place: Place) {
        guard let known = place.known else { return }
        // The resumption is of the place's own listen.
        let mark = place.mark.map { LogMark(seq: $0.seq) }
        place.known = nil
        place.mark = nil
        settleBelow(place, mark) { known[$0] }
        for view in place.views where !view.query.selectsAll && view.own == nil {
            view.own = ServerSet(node: chosen(by: view, from: known), isComplete: true, mark: mark)
        }
    }

    /// All was there though nobody had asked for it; from now on only a part is brought up to date. Returns where.
    private func releaseCovers(of place: Place) -> Touched {
        var touched = Touched.nothing
        while let cover = place.cover {
            release(cover)
            touched.insert(cover.path)
        }
        return touched
    }

    /// What a filtered query keeps of a whole value: what it selects, and what it shows in place of what was taken out
    /// locally.
    private func chosen(by view: View, from known: Node) -> Node {
        var node = view.query.select(from: known)
        guard case .branch(let shown) = view.shown else { return node }
        for entry in shown.children where node.child(entry.key).isNull {
            node = node.replacingChild(entry.key, with: known.child(entry.key))
        }
        return node
    }

    // MARK: Data of filtered queries

    private func take(_ told: ToldChanges, _ view: View, at place: Place) {
        let spec = QuerySpec(path: place.path, query: view.query)
        if let change = told.changes.first, told.changes.count == 1, change.path.isRoot {
            cache?.applyServer(change.value, at: told.path, of: spec)
        } else {
            cache?.applyServer(told.changes, at: told.path, of: spec)
        }
        cache?.note(told.mark, of: spec)
        takeInMemory(told, view, at: place)
    }

    private func takeInMemory(_ told: ToldChanges, _ view: View, at place: Place) {
        for change in told.changes {
            let below = told.path.appending(change.path).dropFirst(place.path.depth)
            if below.isRoot {
                view.own = ServerSet(node: view.query.select(from: change.value), isComplete: true)
                view.ownChanges = nil
            } else {
                _ = take(change.value, at: below, view, place, trims: false)
            }
        }
        view.own?.mark = told.mark
        if let gone = view.own?.trim(to: view.query) { view.ownChanges?.append(contentsOf: gone) }
    }

    /// Gives a filtered query a value below its place. Returns whether that concerns it.
    func take(_ value: Node, at path: Path, _ view: View, _ place: Place, trims: Bool = true) -> Bool {
        if view.own == nil { view.own = ServerSet() }
        guard let key = view.own?.apply(value, at: path, of: view.query) else { return false }
        view.ownChanges?.append(key)
        if trims, let gone = view.own?.trim(to: view.query) { view.ownChanges?.append(contentsOf: gone) }
        place.index?.note(view)
        return true
    }
}

extension SyncTree {
    /// The server has answered a question for what a query selects. Who listens and has not been sent it yet has it from
    /// here; what nobody listens to is kept for later, where anything is.
    ///
    /// What is known completely already is brought up to date by its own listen, in order: the answer adds nothing.
    public func applyAnswer(_ value: Node, of spec: QuerySpec, seq: Int64?) -> SyncEffects {
        guard !serverValue(of: spec).isComplete else { return SyncEffects() }
        let mark = seq.map { LogMark(seq: $0) }
        cache?.keep(value, of: spec, mark)
        guard spec.loadsAllData else {
            guard let place = root.find(spec.path.keys[...]), let view = place.view(of: spec.query), view.tag != nil
            else { return SyncEffects() }
            view.own = ServerSet(node: spec.query.select(from: value), isComplete: true, mark: mark)
            view.ownChanges = nil
            return refresh(view, at: place)
        }
        var touched = Touched.nothing
        absorb(value, at: spec.path, isMerge: false, mark, &touched)
        return refresh(touched)
    }
}

/// Listens that go on behind an entry: they are told of each later entry by itself, the client's own among them. Each of these states is older
/// than what is shown, so that they are taken together when the listen is complete; where the connection is lost before, none of them is.
extension SyncTree {
    /// Keeps what belongs to a listen that goes on where it was, until that is complete. Returns whether it does.
    func hold(_ told: ToldChanges, _ tag: ListenTag?) -> Bool {
        if let tag {
            // What is not below the query's place is none of its data.
            guard let (place, view) = tagged[tag], view.held != nil, place.path.contains(told.path) else {
                return false
            }
            view.held?.append(told)
            return true
        }
        guard let place = listeningPlace(above: told.path), place.held != nil else { return false }
        place.held?.append(told)
        return true
    }

    /// Gives the cache what has become of the children that a query was told of, entry by entry. What came in between is not for the cache:
    /// others, who share it, have been told later things, and a child that leaves the query may stay.
    func keep(_ selected: Node, changedBy held: [ToldChanges], of spec: QuerySpec) {
        guard let cache, let last = held.last else { return }
        let places = held.flatMap { told in
            told.changes.map { told.path.appending($0.path).dropFirst(spec.path.depth) }
        }
        if places.contains(where: \.isRoot) {
            cache.applyServer(selected, at: spec.path, of: spec)
        } else {
            for key in Set(places.map { $0[0] }) where key != .priority {
                cache.applyServer(selected.child(key), at: spec.path.appending(key), of: spec)
            }
        }
        cache.note(last.mark, of: spec)
    }
}

/// What the server has told at or below a path: of one entry.
struct ToldChanges {
    let changes: [Change]
    let path: Path
    /// Whether several places were set at once.
    let isMerge: Bool
    let mark: LogMark?
}
