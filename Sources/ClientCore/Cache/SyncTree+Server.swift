public import Tree

/// The server's data.
extension SyncTree {
    /// The server has set a place.
    ///
    /// - Parameter tag: of the listen that the data belongs to; nil for default listens.
    public func applyServer(_ value: Node, at path: Path, tag: ListenTag?) -> SyncEffects {
        if let tag { return applyTagged([Change(path: .root, value: value)], at: path, tag) }
        cache?.applyServer(value, at: path, of: QuerySpec(path: path))
        var touched = Touched.nothing
        absorb(value, at: path, isMerge: false, &touched)
        return refresh(touched)
    }

    /// The server has set several places below the path, relative to it, at once.
    public func applyServer(_ changes: [Change], at path: Path, tag: ListenTag?) -> SyncEffects {
        if let tag { return applyTagged(changes, at: path, tag) }
        cache?.applyServer(changes, at: path, of: QuerySpec(path: path))
        var touched = Touched.nothing
        for change in changes {
            absorb(change.value, at: path.appending(change.path), isMerge: true, &touched)
        }
        return refresh(touched)
    }

    /// The server has sent all that a listen selects.
    public func completeListen(_ spec: QuerySpec, tag: ListenTag?) -> SyncEffects {
        cache?.complete(spec)
        if let tag {
            guard let (place, view) = tagged[tag] else { return SyncEffects() }
            view.own = view.own ?? ServerSet()
            guard view.own?.isComplete == false else { return SyncEffects() }
            view.own?.isComplete = true
            return refresh(Touched(place.path))
        }
        guard let place = root.find(spec.path.keys[...]), place.isListening, place.cover == nil else {
            return SyncEffects()
        }
        setKnown(serverValue(of: QuerySpec(path: spec.path)).node, at: place)
        return refresh(Touched(place.path))
    }

    // MARK: Data of default listens

    /// Takes a value for all who listen at, above or below its place.
    private func absorb(_ value: Node, at path: Path, isMerge: Bool, _ touched: inout Touched) {
        var above = root
        var depth = 0
        // From the root down to the place: what is known as a whole changes; filtered queries take single children.
        while true {
            if let known = above.known {
                let below = path.dropFirst(depth)
                let changed = known.replacing(below, with: value)
                above.known = changed
                touched.insert(above.path.appending(Self.top(of: below, known, changed)))
                return
            }
            guard depth < path.depth else { break }
            for view in above.views {
                guard let own = view.own, !isMerge || own.isComplete || !own.node.isNull else { continue }
                if take(value, at: path.dropFirst(depth), view) { touched.insert(path) }
            }
            guard let next = above.children[path[depth]] else { break }
            above = next
            depth += 1
        }
        guard !path.namesPriority else { return }
        if depth == path.depth {
            if above.views.isEmpty, !isKnownChild(above) {
                settleBelow(above) { value[$0] }
            } else {
                setKnown(value, at: above)
            }
            touched.insert(path)
        } else if depth == path.depth - 1, above.hasDefault, !isMerge || above.knowsChildren {
            // A child of what is not known as a whole.
            setKnown(value, at: above.descend(path.dropFirst(depth)))
            touched.insert(path)
        }
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
    func setKnown(_ value: Node, at place: Place) {
        place.known = value
        for view in place.views { view.own = nil }
        place.forEachBelow { below in
            below.known = nil
            for view in below.views { view.own = nil }
            return true
        }
        dropEmpty(below: place)
    }

    /// Gives the topmost places below, which somebody listens to, their own values.
    private func settleBelow(_ place: Place, _ value: (Path) -> Node) {
        var listening: [Place] = []
        place.forEachBelow { below in
            guard below.views.isEmpty else {
                listening.append(below)
                return false
            }
            return true
        }
        for below in listening { setKnown(value(below.path.relative(to: place.path)), at: below) }
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
        place.known = nil
        settleBelow(place) { known[$0] }
        for view in place.views where !view.query.selectsAll && view.own == nil {
            view.own = ServerSet(node: chosen(by: view, from: known), isComplete: true)
        }
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

    private func applyTagged(_ changes: [Change], at path: Path, _ tag: ListenTag) -> SyncEffects {
        guard let (place, view) = tagged[tag], place.path.contains(path) else { return SyncEffects() }
        let spec = QuerySpec(path: place.path, query: view.query)
        if changes.count == 1, let change = changes.first, change.path.isRoot {
            cache?.applyServer(change.value, at: path, of: spec)
        } else {
            cache?.applyServer(changes, at: path, of: spec)
        }
        // All was there though nobody had asked for it; from now on only a part is brought up to date.
        var touched = Touched.nothing
        while let cover = place.cover {
            release(cover)
            touched.insert(cover.path)
        }
        for change in changes {
            let place = path.appending(change.path)
            let below = place.dropFirst(spec.path.depth)
            if below.isRoot {
                view.own = ServerSet(node: view.query.select(from: change.value), isComplete: true)
                view.ownChanges = nil
                touched.insert(place)
            } else if take(change.value, at: below, view, trims: false) {
                touched.insert(place)
            }
        }
        if let gone = view.own?.trim(to: view.query) { view.ownChanges?.append(contentsOf: gone) }
        if case .many(let none) = touched, none.isEmpty, !(view.ownChanges?.isEmpty ?? false) {
            touched = Touched(spec.path)
        }
        return refresh(touched)
    }

    /// Gives a filtered query a value below its place. Returns whether that concerns it.
    private func take(_ value: Node, at path: Path, _ view: View, trims: Bool = true) -> Bool {
        if view.own == nil { view.own = ServerSet() }
        guard let key = view.own?.apply(value, at: path, of: view.query) else { return false }
        view.ownChanges?.append(key)
        if trims, let gone = view.own?.trim(to: view.query) { view.ownChanges?.append(contentsOf: gone) }
        return true
    }

    // MARK: Accepted writes

    /// The server has taken a write: those who listen but have not been sent the server's data keep what they see.
    func assume(_ value: Node, at path: Path) {
        guard !path.namesPriority else { return }
        var place = root
        for (depth, key) in path.keys.enumerated() {
            if place.known != nil { return }
            if depth == path.depth - 1 {
                for view in place.views where view.own?.isComplete == false { _ = take(value, at: Path([key]), view) }
            }
            guard let below = place.children[key] else {
                if depth == path.depth - 1, place.hasDefault { setKnown(value, at: place.descend(Path([key]))) }
                return
            }
            place = below
        }
        assume(value, for: place)
    }

    private func assume(_ value: Node, for place: Place) {
        guard place.known == nil else { return }
        if place.hasDefault || isKnownChild(place) {
            var merged = value
            place.forEachBelow { below in
                guard let known = below.known else { return true }
                merged = merged.replacing(below.path.relative(to: place.path), with: known)
                return false
            }
            setKnown(merged, at: place)
            return
        }
        for view in place.views where view.own?.isComplete == false {
            view.own?.node = view.query.select(from: value)
            view.ownChanges = nil
        }
        for (key, below) in place.children { assume(value.child(key), for: below) }
    }
}
