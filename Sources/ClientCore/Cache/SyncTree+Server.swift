public import Tree
public import Wire

/// The server's data.
extension SyncTree {
    /// Applies a value that the server has set.
    ///
    /// - Parameters:
    ///   - tag: of the listen that the data belongs to; nil for default listens.
    ///   - mark: the log position of all data of that listen after this change; nil if the server did not send it, or
    ///     if the data is not the server's.
    public func applyServer(_ value: Node, at path: Path, tag: ListenTag?, mark: LogMark? = nil) -> SyncEffects {
        let changes = [Change(path: .root, value: value)]
        return apply(ReportedChanges(changes: changes, path: path, isMerge: false, mark: mark), tag)
    }

    /// Applies several values below the path, with paths relative to it, that the server has set at once.
    public func applyServer(
        _ changes: [Change], at path: Path, tag: ListenTag?, mark: LogMark? = nil
    ) -> SyncEffects {
        apply(ReportedChanges(changes: changes, path: path, isMerge: true, mark: mark), tag)
    }

    private func apply(_ reported: ReportedChanges, _ tag: ListenTag?) -> SyncEffects {
        if hold(reported, tag) { return SyncEffects() }
        var touched = ChangedPaths.nothing
        guard let tag else {
            heard(at: reported.path, &touched)
            take(reported, &touched)
            return refresh(touched)
        }
        guard let (syncPoint, view) = tagged[tag], syncPoint.path.contains(reported.path) else { return SyncEffects() }
        touched = releaseCovers(of: syncPoint)
        heard(view, at: syncPoint.path)
        take(reported, view, at: syncPoint)
        return refresh(view, at: syncPoint, touched)
    }

    /// Applies a value that the client assumes until the server sends the actual one. The value answers no request.
    public func suppose(_ value: Node, at path: Path) -> SyncEffects {
        var touched = ChangedPaths.nothing
        take(
            ReportedChanges(changes: [Change(path: .root, value: value)], path: path, isMerge: false, mark: nil),
            &touched)
        return refresh(touched)
    }

    /// Records that the server has sent all data that a listen selects.
    ///
    /// - Parameter mark: the log position of the data; nil if it is the position of the last change, or unknown.
    public func completeListen(_ spec: QuerySpec, tag: ListenTag?, mark: LogMark? = nil) -> SyncEffects {
        if let tag {
            guard let (syncPoint, view) = tagged[tag] else { return SyncEffects() }
            // The server had no changes: the query's selection of the former data is its own data from now on.
            let touched = releaseCovers(of: syncPoint)
            let held = view.held ?? []
            heard(view, at: syncPoint.path)
            for reported in held { takeInMemory(reported, view, at: syncPoint) }
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
            return isNews ? refresh(view, at: syncPoint, touched) : refresh(touched)
        }
        let syncPoint = root.find(spec.path.keys[...])
        var touched = ChangedPaths.nothing
        if let syncPoint, syncPoint.isListening {
            let held = syncPoint.held ?? []
            heard(at: spec.path, &touched)
            for reported in held { take(reported, &touched) }
        }
        cache?.complete(spec)
        if let mark { cache?.note(mark, of: spec) }
        guard let syncPoint, syncPoint.isListening else { return SyncEffects() }
        if let mark, syncPoint.known != nil { syncPoint.mark = mark }
        if let node = serverValue(at: spec.path) {
            cache?.confirm(node, of: spec)
            return refresh(touched)
        }
        setKnown(serverValue(of: QuerySpec(path: spec.path)).node, at: syncPoint, mark)
        return refresh(ChangedPaths(syncPoint.path))
    }

    // MARK: Data of default listens

    private func take(_ reported: ReportedChanges, _ touched: inout ChangedPaths) {
        if reported.isMerge {
            cache?.applyServer(reported.changes, at: reported.path, of: QuerySpec(path: reported.path))
        } else if let change = reported.changes.first {
            cache?.applyServer(change.value, at: reported.path, of: QuerySpec(path: reported.path))
        }
        note(reported.mark, at: reported.path)
        for change in reported.changes {
            absorb(
                change.value, at: reported.path.appending(change.path), isMerge: reported.isMerge, reported.mark,
                &touched)
        }
    }

    /// Applies a value for all listeners at, above or below its path.
    func absorb(
        _ value: Node, at path: Path, isMerge: Bool, _ mark: LogMark?, _ touched: inout ChangedPaths
    ) {
        var above = root
        var depth = 0
        // From the root down to the path: whole known values are changed; filtered queries receive single children.
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
            // A child of a path whose whole value is unknown.
            setKnown(value, at: above.descend(path.dropFirst(depth)), mark)
            touched.insert(path)
        }
    }

    /// Whether there is a listener at a path or at a node above it. Data that a query there has been sent completely is
    /// then changed only by the query's own listen: the server sends several entries to one listen before it sends them
    /// to another, so the entries may be older than the query's data. As the query is sent changes only, a child that
    /// such an entry adds or removes would stay so.
    private func isListening(_ path: Path, _ syncPoint: SyncPoint) -> Bool {
        var syncPoint = syncPoint
        for key in path.keys {
            guard let below = syncPoint.children[key] else { return false }
            if below.isListening { return true }
            syncPoint = below
        }
        return false
    }

    /// Whether the path is a child that is needed by a listener at its parent, whose whole value is unknown.
    private func isKnownChild(_ syncPoint: SyncPoint) -> Bool { syncPoint.parent?.hasDefault ?? false }

    /// Returns the topmost path on the way at which a change has altered the kind of node: a leaf that became a branch,
    /// or a branch that vanished. From then on, the client's writes there apply to a different base.
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

    /// Sets the whole known value of a path, which all paths below read from here.
    func setKnown(_ value: Node, at syncPoint: SyncPoint, _ mark: LogMark?) {
        syncPoint.known = value
        syncPoint.mark = mark
        for view in syncPoint.views { view.own = nil }
        syncPoint.forEachBelow { below in
            below.known = nil
            below.mark = nil
            for view in below.views { view.own = nil }
            return true
        }
        dropEmpty(below: syncPoint)
    }

    /// Gives the topmost paths below that have listeners values of their own.
    private func settleBelow(_ syncPoint: SyncPoint, _ mark: LogMark?, _ value: (Path) -> Node) {
        var listening: [SyncPoint] = []
        syncPoint.forEachBelow { below in
            guard below.views.isEmpty else {
                listening.append(below)
                return false
            }
            return true
        }
        for below in listening { setKnown(value(below.path.relative(to: syncPoint.path)), at: below, mark) }
    }

    private func dropEmpty(below syncPoint: SyncPoint) {
        var empty: [SyncPoint] = []
        syncPoint.forEachBelow { below in
            if below.children.isEmpty, below.views.isEmpty, below.known == nil { empty.append(below) }
            return true
        }
        for below in empty { below.prune() }
    }

    /// Releases a whole known value: listeners below keep their part of it.
    func release(_ syncPoint: SyncPoint) {
        guard let known = syncPoint.known else { return }
        // The resumption belongs to the path's own listen.
        let mark = syncPoint.mark.map { LogMark(seq: $0.seq) }
        syncPoint.known = nil
        syncPoint.mark = nil
        settleBelow(syncPoint, mark) { known[$0] }
        for view in syncPoint.views where !view.query.selectsAll && view.own == nil {
            view.own = ServerSet(node: chosen(by: view, from: known), isComplete: true, mark: mark)
        }
    }

    /// Releases whole values that were present without a listen, because only a part of them is updated from now on.
    /// Returns their paths.
    private func releaseCovers(of syncPoint: SyncPoint) -> ChangedPaths {
        var touched = ChangedPaths.nothing
        while let cover = syncPoint.cover {
            release(cover)
            touched.insert(cover.path)
        }
        return touched
    }

    /// Returns the part of a whole value that a filtered query keeps: its selection, and the children that replace
    /// locally removed ones.
    private func chosen(by view: View, from known: Node) -> Node {
        var node = view.query.select(from: known)
        guard case .branch(let shown) = view.shown else { return node }
        for entry in shown.children where node.child(entry.key).isNull {
            node = node.replacingChild(entry.key, with: known.child(entry.key))
        }
        return node
    }

    // MARK: Data of filtered queries

    private func take(_ reported: ReportedChanges, _ view: View, at syncPoint: SyncPoint) {
        let spec = QuerySpec(path: syncPoint.path, query: view.query)
        if let change = reported.changes.first, reported.changes.count == 1, change.path.isRoot {
            cache?.applyServer(change.value, at: reported.path, of: spec)
        } else {
            cache?.applyServer(reported.changes, at: reported.path, of: spec)
        }
        cache?.note(reported.mark, of: spec)
        takeInMemory(reported, view, at: syncPoint)
    }

    private func takeInMemory(_ reported: ReportedChanges, _ view: View, at syncPoint: SyncPoint) {
        for change in reported.changes {
            let below = reported.path.appending(change.path).dropFirst(syncPoint.path.depth)
            if below.isRoot {
                view.own = ServerSet(node: view.query.select(from: change.value), isComplete: true)
                view.ownChanges = nil
            } else {
                _ = take(change.value, at: below, view, syncPoint, trims: false)
            }
        }
        view.own?.mark = reported.mark
        if let gone = view.own?.trim(to: view.query) { view.ownChanges?.append(contentsOf: gone) }
    }

    /// Applies a value below a filtered query's path to the query. Returns whether the value concerns the query.
    func take(_ value: Node, at path: Path, _ view: View, _ syncPoint: SyncPoint, trims: Bool = true) -> Bool {
        if view.own == nil { view.own = ServerSet() }
        guard let key = view.own?.apply(value, at: path, of: view.query) else { return false }
        view.ownChanges?.append(key)
        if trims, let gone = view.own?.trim(to: view.query) { view.ownChanges?.append(contentsOf: gone) }
        syncPoint.index?.note(view)
        return true
    }
}

extension SyncTree {
    /// Applies the server's answer to a get. Listeners that have not been sent the data get it from here; data without
    /// listeners is kept for later if anything is known of it.
    ///
    /// Data that is already completely known is updated by its own listen, in order, so the answer adds nothing.
    public func applyAnswer(_ value: Node, of spec: QuerySpec, seq: Int64?) -> SyncEffects {
        guard !serverValue(of: spec).isComplete else { return SyncEffects() }
        let mark = seq.map { LogMark(seq: $0) }
        cache?.keep(value, of: spec, mark)
        guard spec.loadsAllData else {
            guard let syncPoint = root.find(spec.path.keys[...]), let view = syncPoint.view(of: spec.query),
                view.tag != nil
            else { return SyncEffects() }
            view.own = ServerSet(node: spec.query.select(from: value), isComplete: true, mark: mark)
            view.ownChanges = nil
            return refresh(view, at: syncPoint)
        }
        var touched = ChangedPaths.nothing
        absorb(value, at: spec.path, isMerge: false, mark, &touched)
        return refresh(touched)
    }
}

/// Listens that resume after an entry: the server sends each later entry separately, including the client's own. Each
/// of these states is older than the value shown, so they are applied together when the listen is complete. If the
/// connection is lost before, none of them is applied.
extension SyncTree {
    /// Holds a change that belongs to a resuming listen until the listen is complete. Returns whether it was held.
    func hold(_ reported: ReportedChanges, _ tag: ListenTag?) -> Bool {
        if let tag {
            // A change that is not below the query's path is not part of its data.
            guard let (syncPoint, view) = tagged[tag], view.held != nil, syncPoint.path.contains(reported.path) else {
                return false
            }
            view.held?.append(reported)
            return true
        }
        guard let syncPoint = listeningPoint(above: reported.path), syncPoint.held != nil else { return false }
        syncPoint.held?.append(reported)
        return true
    }

    /// Passes the final state of the children that the server sent for a query, entry by entry, to the cache. The
    /// states in between are not for the cache: other queries that share it have been sent later data, and a child that
    /// leaves the query may remain.
    func keep(_ selected: Node, changedBy held: [ReportedChanges], of spec: QuerySpec) {
        guard let cache, let last = held.last else { return }
        let paths = held.flatMap { reported in
            reported.changes.map { reported.path.appending($0.path).dropFirst(spec.path.depth) }
        }
        if paths.contains(where: \.isRoot) {
            cache.applyServer(selected, at: spec.path, of: spec)
        } else {
            for key in Set(paths.map { $0[0] }) where key != .priority {
                cache.applyServer(selected.child(key), at: spec.path.appending(key), of: spec)
            }
        }
        cache.note(last.mark, of: spec)
    }
}

/// The changes of one entry that the server has sent at or below a path.
struct ReportedChanges {
    let changes: [Change]
    let path: Path
    /// Whether several paths were set at once.
    let isMerge: Bool
    let mark: LogMark?
}
