import Tree

/// Priorities of nodes that pending writes empty and fill again.
extension WriteTree {
    /// The writes below a point, applied one after the other to what lies under them; nil where that comes to the same as
    /// laying each over its place, which is nearly always.
    ///
    /// A node that loses its last child loses its priority, even if a later write gives it another child: what it is
    /// then depends on the order of the writes, and not only on the latest at each place.
    static func replayed(_ base: Node, _ after: WriteID, _ point: Point, _ filter: WriteFilter) -> Node? {
        guard !base.priority.isNull || point.children[.priority] != nil else { return nil }
        var steps: [WriteID: [Change]] = [:]
        var removes = false
        gather(point, Path(), after, filter) { id, path, value in
            steps[id, default: []].append(Change(path: path, value: value))
            if value.isNull, !path.namesPriority { removes = true }
        }
        // A priority that was written before there was anything has found nothing.
        guard removes || point.children[.priority] != nil, steps.count > 1 else { return nil }
        var node = base
        for id in steps.keys.sorted() {
            node = node.replacing(ApplicationOrder.sorted(steps[id] ?? []))
        }
        return node
    }

    private static func gather(
        _ point: Point, _ path: Path, _ after: WriteID, _ filter: WriteFilter,
        _ body: (WriteID, Path, Node) -> Void
    ) {
        for (key, below) in point.children where below.newest > after {
            let place = path.appending(key)
            for entry in below.entries where entry.id > after && filter.admits(entry) {
                body(entry.id, place, entry.value)
            }
            gather(below, place, after, filter, body)
        }
    }
}
