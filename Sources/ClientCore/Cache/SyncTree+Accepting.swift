public import Tree

/// The client's data that the server has not confirmed over this connection since the listen was sent: from the file,
/// from before the connection was lost, and from the client's accepted writes.
///
/// Accepted writes are added to this data. They are not added to data that the server sends itself: the server sends
/// its own data before it answers a write, and later data of other clients may already have arrived. The server's
/// answer to a listen refers to the data that the client had when it sent the listen, so the writes accepted since are
/// removed before the answer is applied.
extension SyncTree {
    /// Records that a listen is being sent, for the first time or again, with the client's present data for it.
    ///
    /// - Parameter resumes: whether the listen is to resume after an entry. The answer then consists of all entries
    ///   since, including the client's own, one after another. They are applied together when the listen is complete,
    ///   because each of them is older than the value shown.
    public func sent(_ spec: QuerySpec, tag: ListenTag?, resumes: Bool = false) {
        let has = serverValue(of: spec)
        let asked = ListenState.waiting(has.isComplete ? has.node : nil)
        cache?.asked(spec)
        if let tag {
            guard let view = tagged[tag]?.view else { return }
            view.asked = asked
            view.held = resumes ? [] : nil
        } else if let syncPoint = root.find(spec.path.keys[...]) {
            syncPoint.asked = asked
            syncPoint.held = resumes ? [] : nil
        }
    }

    /// Returns the client's data for a path when the listen was sent, on which the server's answer is based.
    public func askedValue(at path: Path) -> Node {
        guard let syncPoint = listeningPoint(above: path), case .waiting(let node?) = syncPoint.asked else {
            return serverValue(of: QuerySpec(path: path)).node
        }
        return node[path.dropFirst(syncPoint.path.depth)]
    }

    /// Records that the server has answered the listen without a tag that covers a path: from now on it sends all
    /// changes of the listen's data.
    func heard(at path: Path, _ touched: inout ChangedPaths) {
        guard let syncPoint = listeningPoint(above: path), case .waiting(let asked) = syncPoint.asked else { return }
        // This is a part of the data, and the client has no base value for it: the rest is still to come.
        if asked == nil, path != syncPoint.path {
            syncPoint.answeredParts.insert(path)
            return
        }
        syncPoint.asked = .answered
        cache?.answered(QuerySpec(path: syncPoint.path), from: asked)
        guard let asked, serverValue(at: syncPoint.path).map({ !$0.isIdentical(to: asked) }) ?? true else { return }
        absorb(asked, at: syncPoint.path, isMerge: false, nil, &touched)
    }

    /// Records that the server has answered a listen for a filtered query.
    func heard(_ view: View, at path: Path) {
        guard case .waiting(let asked) = view.asked else { return }
        view.asked = .answered
        cache?.answered(QuerySpec(path: path, query: view.query), from: asked)
        guard let asked = asked?.withoutPriority else { return }
        if let own = view.own, !own.isAssumed, own.node == asked { return }
        view.own = ServerSet(node: asked, isComplete: true)
        view.ownChanges = nil
    }

    func listeningPoint(above path: Path) -> SyncPoint? {
        var syncPoint = root
        if syncPoint.isListening { return syncPoint }
        for key in path.keys {
            guard let below = syncPoint.children[key] else { return nil }
            if below.isListening { return below }
            syncPoint = below
        }
        return nil
    }

    // MARK: Accepted writes

    /// Applies an accepted write, so that listeners whose data the server has not sent keep the value they see.
    func assume(_ value: Node, at path: Path) {
        guard let value = withAnsweredParts(value, at: path) else { return }
        var syncPoint = root
        for (depth, key) in path.keys.enumerated() {
            let below = path.dropFirst(depth)
            if syncPoint.isAnswered || changeKnown(of: syncPoint, value, at: below) { return }
            for view in syncPoint.views where view.own != nil && !view.isAnswered {
                _ = take(value, at: below, view, syncPoint, trims: false)
                noteAssumed(view, syncPoint)
            }
            guard let next = syncPoint.children[key] else {
                guard depth == path.depth - 1, syncPoint.hasDefault, !path.namesPriority else { return }
                return setKnown(value, at: syncPoint.descend(below), nil)
            }
            syncPoint = next
        }
        assume(value, for: syncPoint)
    }

    /// Returns a written value with those parts replaced that the server has already sent. Returns nil for a value
    /// inside such a part.
    private func withAnsweredParts(_ value: Node, at path: Path) -> Node? {
        var parts = listeningPoint(above: path)?.answeredParts ?? []
        root.find(path.keys[...])?.forEachBelow { below in
            parts.formUnion(below.answeredParts)
            return true
        }
        var value = value
        for part in parts where part.contains(path) || path.contains(part) {
            guard !part.contains(path) else { return nil }
            if let reported = serverValue(at: part) {
                value = value.replacing(part.dropFirst(path.depth), with: reported)
            }
        }
        return value
    }

    private func assume(_ value: Node, for syncPoint: SyncPoint) {
        if syncPoint.isAnswered || changeKnown(of: syncPoint, value, at: .root) { return }
        // Queries for which the server has sent nothing select from the whole local data, as later writes may add more
        // of it to the selection.
        if syncPoint.hasDefault || (syncPoint.parent?.hasDefault ?? false) || isUnanswered(syncPoint) {
            for view in syncPoint.views { cache?.doubt(QuerySpec(path: syncPoint.path, query: view.query)) }
            return setKnown(value, at: syncPoint, nil)
        }
        for view in syncPoint.views where view.own != nil && !view.isAnswered {
            var query = view.query
            query.limit = nil
            view.own?.node = query.select(from: value).withoutPriority
            view.ownChanges = nil
            syncPoint.index?.note(view)
            noteAssumed(view, syncPoint)
        }
        for (key, below) in syncPoint.children { assume(value.child(key), for: below) }
    }

    /// Whether the path has listeners, and the server has sent nothing for it or for paths below it.
    private func isUnanswered(_ syncPoint: SyncPoint) -> Bool {
        guard !syncPoint.views.isEmpty, !syncPoint.views.contains(where: \.isAnswered) else { return false }
        var isUnanswered = true
        syncPoint.forEachBelow { below in
            if below.isAnswered || below.views.contains(where: \.isAnswered) { isUnanswered = false }
            return isUnanswered
        }
        return isUnanswered
    }

    private func noteAssumed(_ view: View, _ syncPoint: SyncPoint) {
        view.own?.mark = nil
        view.own?.isAssumed = true
        cache?.doubt(QuerySpec(path: syncPoint.path, query: view.query))
    }

    /// Changes the known value, and returns whether the path's whole value is known. Parts that the server itself has
    /// sent stay unchanged.
    private func changeKnown(of syncPoint: SyncPoint, _ value: Node, at path: Path) -> Bool {
        guard let known = syncPoint.known else { return false }
        var changed = known.replacing(path, with: value)
        var written: SyncPoint? = syncPoint
        for key in path.keys {
            written = written?.children[key]
            if written?.isAnswered == true { return true }
        }
        written?.forEachBelow { below in
            guard below.isAnswered else { return true }
            let rest = below.path.dropFirst(syncPoint.path.depth)
            changed = changed.replacing(rest, with: known[rest])
            return false
        }
        // The answer to a get may have become a child that a query selects and for which the server itself sends
        // changes.
        for view in syncPoint.views where view.isAnswered {
            for key in path.keys.first.map({ [$0] }) ?? known.childKeys + changed.childKeys {
                let (before, after) = (known.child(key), changed.child(key))
                guard !before.isNull && view.query.admits(key, before) || !after.isNull && view.query.admits(key, after)
                else { continue }
                changed = changed.replacingChild(key, with: before)
            }
        }
        syncPoint.known = changed
        syncPoint.mark = nil
        cache?.doubt(QuerySpec(path: syncPoint.path))
        return true
    }
}

/// The state of a listen at the server.
enum ListenState {
    /// The server has not answered. With the client's data when the listen was sent, if that was complete.
    case waiting(Node?)
    /// The server sends the changes.
    case answered
}
