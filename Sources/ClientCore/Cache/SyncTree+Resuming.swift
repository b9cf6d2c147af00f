import Tree
import Wire

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
