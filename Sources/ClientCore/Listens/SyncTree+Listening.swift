import Tree
import Wire

/// Listeners, and the listens that the connection starts and stops for them.
///
/// There is one listen for all data of a path, for all listeners at or below the path. A filtered query has a listen of
/// its own only if no such listen includes its data. A listen that is no longer needed is stopped before its
/// replacement is started: so no two listens without a tag include the same data, and the connection can assign data to
/// its listen.
extension SyncTree {
    /// Adds a listener. Its first events, from the known data, are returned at once.
    public func add(_ registration: Registration) -> SyncEffects {
        var effects = SyncEffects()
        let view = makeView(registration.spec, &effects)
        // The cache may have provided the base values of an earlier run's increments.
        if writes.hasWaiting { effects.events += refresh(.nothing).events }
        let count = effects.events.count
        let syncPoint = root.descend(registration.spec.path)
        view.join(registration, syncPoint.local, source(of: view, at: syncPoint), &effects.events)
        mark(&effects.events, from: count, of: view, at: syncPoint)
        return effects
    }

    /// Removes a listener, without any event.
    public func remove(_ registration: Registration) -> SyncEffects {
        guard let syncPoint = root.find(registration.spec.path.keys[...]),
            let view = syncPoint.view(of: registration.spec.query)
        else { return SyncEffects() }
        view.leave(registration.id)
        return removeIfUnused(view, at: syncPoint)
    }

    /// Removes all listeners of a query after the server refused or revoked it, and returns them. For a default query,
    /// this includes the listeners that only order all data of its path.
    public func removeAll(_ spec: QuerySpec) -> (registrations: [Registration], effects: SyncEffects) {
        var registrations: [Registration] = []
        var effects = SyncEffects()
        guard let syncPoint = root.find(spec.path.keys[...]) else { return (registrations, effects) }
        let views = syncPoint.views.filter { $0.query == spec.query || (spec.query.selectsAll && $0.query.selectsAll) }
        // The server has already removed the listen.
        if spec.query.selectsAll { syncPoint.isListening = false }
        for view in views {
            registrations += view.leaveAll()
            view.isKeptSynced = false
            if let tag = view.tag {
                tagged[tag] = nil
                view.tag = nil
            }
            let step = removeIfUnused(view, at: syncPoint)
            effects.events += step.events
            effects.listens += step.listens
        }
        return (registrations, effects)
    }

    /// Starts or ends a listen without listeners.
    public func setKeptSynced(_ spec: QuerySpec, _ isKept: Bool) -> SyncEffects {
        var effects = SyncEffects()
        if isKept {
            makeView(spec, &effects).isKeptSynced = true
        } else if let syncPoint = root.find(spec.path.keys[...]), let view = syncPoint.view(of: spec.query) {
            view.isKeptSynced = false
            return removeIfUnused(view, at: syncPoint)
        }
        return effects
    }

    // MARK: Adding

    private func makeView(_ spec: QuerySpec, _ effects: inout SyncEffects) -> View {
        let syncPoint = root.descend(spec.path)
        if let view = syncPoint.view(of: spec.query) { return view }
        let isCovered = syncPoint.hasDefault || syncPoint.isShadowed
        let isFirstDefault = spec.query.selectsAll && !syncPoint.hasDefault
        let isFirst = syncPoint.views.isEmpty
        let view = syncPoint.addView(spec.query, many: many)
        if !spec.query.selectsAll || isFirstDefault { readCache(spec, view, syncPoint) }
        let bringsAll = isFirstDefault && syncPoint.known != nil
        let counted = bringsAll ? countWaiting() : .nothing
        if isFirst || isFirstDefault { rereadLocal(syncPoint) }
        if bringsAll {
            restart(below: syncPoint, &effects.events)
            for other in syncPoint.views where other !== view { start(other, at: syncPoint, &effects.events) }
        }
        start(view, at: syncPoint, &effects.events)
        if !counted.isNothing { effects.events += refresh(counted).events }
        if spec.query.selectsAll {
            guard !isCovered else { return view }
            syncPoint.isListening = true
            stopTagged(at: syncPoint, &effects)
            for below in syncPoint.allBelow {
                stopTagged(at: below, &effects)
                if below.isListening {
                    below.isListening = false
                    effects.listens.append(.stop(QuerySpec(path: below.path), tag: nil))
                }
            }
            effects.listens.append(.start(QuerySpec(path: spec.path), tag: nil))
        } else if !isCovered {
            startTagged(view, at: syncPoint, &effects)
        }
        return view
    }

    /// Restarts the views below a path whose whole value has come from the cache. Until now they had data of their own,
    /// or none; from now on they select from that value. The server's data may be equal to it, and then no event would
    /// update them.
    private func restart(below syncPoint: SyncPoint, _ events: inout [DataEvent]) {
        for below in syncPoint.allBelow.reversed() where !below.views.isEmpty {
            rereadLocal(below)
            for view in below.views { start(view, at: below, &events) }
        }
    }

    /// Fills in the data that the cache and other listeners have.
    private func readCache(_ spec: QuerySpec, _ view: View, _ syncPoint: SyncPoint) {
        let wanted = spec.loadsAllData ? QuerySpec(path: spec.path) : spec
        let cached = cache?.activate(wanted)
        guard syncPoint.cover == nil, !readQueriesAbove(view, syncPoint) else { return }
        if let cached, cached.isComplete, spec.loadsAllData {
            setKnown(cached.node, at: syncPoint, cached.mark)
        } else if spec.loadsAllData {
            guard let cached, case .branch(let branch) = cached.node else { return }
            for entry in branch.children where cached.knownChildren?.contains(entry.key) ?? true {
                let child = syncPoint.descend(Path([entry.key]))
                if child.known == nil { setKnown(entry.node, at: child, nil) }
            }
        } else {
            var node = cached?.node.withoutPriority ?? .null
            if !node.isBranch { node = .null }
            if let keys = cached?.knownChildren, case .branch(let branch) = node {
                for entry in branch.children where !keys.contains(entry.key) {
                    node = node.replacingChild(entry.key, with: .null)
                }
            }
            var mark = cached?.mark
            for (key, child) in syncPoint.children {
                guard let known = child.known else { continue }
                mark = nil
                // A child outside the query's selection is not worth its memory.
                if spec.query.admits(key, known) || !node.child(key).isNull {
                    node = node.replacingChild(key, with: known)
                }
            }
            let isComplete = cached?.isComplete ?? false
            let own = ServerSet(node: spec.query.select(from: node), isComplete: isComplete, mark: mark)
            view.own = isComplete ? own : wider(than: view, at: syncPoint) ?? own
        }
    }

    /// Returns the complete data of another query at the path, if it contains everything that the view selects.
    private func wider(than view: View, at syncPoint: SyncPoint) -> ServerSet? {
        let others = syncPoint.index?.overlapping(view) ?? syncPoint.views
        for other in others where other !== view && !other.query.selectsAll {
            guard let own = other.own, own.isComplete, !own.isAssumed,
                view.query.isServed(by: other.query, thatHasLoaded: own.node.childCount)
            else { continue }
            let mark = own.mark.map { LogMark(seq: $0.seq) }
            return ServerSet(node: view.query.select(from: own.node), isComplete: true, mark: mark)
        }
        return nil
    }

    private func startTagged(_ view: View, at syncPoint: SyncPoint, _ effects: inout SyncEffects) {
        guard view.tag == nil else { return }
        let tag = makeTag()
        view.tag = tag
        tagged[tag] = (syncPoint, view)
        effects.listens.append(.start(QuerySpec(path: syncPoint.path, query: view.query), tag: tag))
    }

    private func stopTagged(at syncPoint: SyncPoint, _ effects: inout SyncEffects) {
        for view in syncPoint.views {
            guard let tag = view.tag else { continue }
            view.tag = nil
            tagged[tag] = nil
            effects.listens.append(.stop(QuerySpec(path: syncPoint.path, query: view.query), tag: tag))
        }
    }

    // MARK: Removing

    private func removeIfUnused(_ view: View, at syncPoint: SyncPoint) -> SyncEffects {
        var effects = SyncEffects()
        guard view.registrations.isEmpty, !view.isKeptSynced,
            syncPoint.views.contains(where: { $0 === view })
        else { return effects }
        syncPoint.remove(view)
        let spec = QuerySpec(path: syncPoint.path, query: view.query)
        if view.query.selectsAll {
            guard !syncPoint.hasDefault else { return effects }
            cache?.deactivate(QuerySpec(path: syncPoint.path))
            effects = uncover(syncPoint)
        } else {
            cache?.deactivate(spec)
            if let tag = view.tag {
                tagged[tag] = nil
                effects.listens.append(.stop(spec, tag: tag))
            }
            if syncPoint.views.isEmpty, syncPoint.known != nil, !(syncPoint.parent?.hasDefault ?? false) {
                release(syncPoint)
            }
        }
        syncPoint.prune()
        return effects
    }

    /// Handles the end of the last listener for all data of a path: other listeners that used this data get listens of
    /// their own.
    private func uncover(_ syncPoint: SyncPoint) -> SyncEffects {
        var effects = SyncEffects()
        if syncPoint.isListening {
            syncPoint.isListening = false
            effects.listens.append(.stop(QuerySpec(path: syncPoint.path), tag: nil))
        }
        if !syncPoint.isShadowed { startListens(from: syncPoint, &effects) }
        if syncPoint.cover === syncPoint, !(syncPoint.parent?.hasDefault ?? false) { release(syncPoint) }
        // Data without listeners is no longer updated.
        for child in syncPoint.children.values where child.views.isEmpty && child.known != nil {
            release(child)
            child.prune()
        }
        // Filtered queries may lose the data that they had from the whole value.
        if !syncPoint.views.isEmpty { rereadLocal(syncPoint) }
        for view in syncPoint.views where view.own == nil && syncPoint.cover == nil { view.own = ServerSet() }
        for view in syncPoint.views { start(view, at: syncPoint, &effects.events) }
        return effects
    }

    private func startListens(from syncPoint: SyncPoint, _ effects: inout SyncEffects) {
        if syncPoint.hasDefault {
            guard !syncPoint.isListening else { return }
            syncPoint.isListening = true
            effects.listens.append(.start(QuerySpec(path: syncPoint.path), tag: nil))
            return
        }
        for view in syncPoint.views { startTagged(view, at: syncPoint, &effects) }
        for key in syncPoint.children.keys.sorted() {
            if let child = syncPoint.children[key] { startListens(from: child, &effects) }
        }
    }
}

/// The data that filtered queries have for paths below theirs: each child that the server has sent for a query is
/// complete.
extension SyncTree {
    /// Returns a child that a filtered query above the path has, and its depth; nil if there is none.
    func childOfQuery(above path: Path) -> (node: Node, depth: Int)? {
        var syncPoint = root
        for (depth, key) in path.keys.enumerated() where key != .priority {
            let views = syncPoint.index.map { $0.holder(of: key).map { [$0] } ?? [] } ?? syncPoint.views
            for view in views {
                guard let child = view.own?.node.child(key), !child.isNull else { continue }
                return (child, depth + 1)
            }
            guard let below = syncPoint.children[key] else { return nil }
            syncPoint = below
        }
        return nil
    }

    /// Fills in the data that a filtered query above has for a new view's path: an item of a loaded list is then
    /// available without a request. The item's own listen corrects later changes.
    /// Returns whether there was any data.
    func readQueriesAbove(_ view: View, _ syncPoint: SyncPoint) -> Bool {
        guard let (child, depth) = childOfQuery(above: syncPoint.path) else { return false }
        let node = child[syncPoint.path.dropFirst(depth)]
        if view.query.selectsAll {
            setKnown(node, at: syncPoint, nil)
        } else {
            view.own = ServerSet(node: view.query.select(from: node).withoutPriority, isComplete: true)
        }
        return true
    }
}
