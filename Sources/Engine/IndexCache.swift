import Synchronization
public import Tree

/// The ordered indexes of a namespace that queries have made use of, each brought up to date when it is asked for again.
/// Any thread.
public final class IndexCache: Sendable {
    private struct Place: Hashable {
        let path: Path
        let index: Query.Index
    }

    private struct Kept {
        var ordered: OrderedIndex
        var lastUse: UInt64
    }

    private struct State {
        var kept: [Place: Kept] = [:]
        var uses: UInt64 = 0
    }

    /// Below so many children a pass over all of them is as good.
    private static let minChildren = 256
    /// The most indexes that are kept; the one that was not used for the longest time goes.
    private static let maxKept = 256
    private let state = Mutex(State())

    init() {}

    /// What a query selects from the node at a path.
    ///
    /// - Parameter isDeclared: whether the rules declare its index there: only then is one kept.
    public func select(_ query: Query, from node: Node, at path: Path, isDeclared: Bool) -> Node {
        guard isDeclared, query.index != .key, !query.selectsAll, case .branch(let branch) = node,
            branch.children.count >= Self.minChildren
        else { return query.select(from: node) }
        let place = Place(path: path, index: query.index)
        let known = state.withLock { $0.kept[place]?.ordered }
        // Outside the lock: the first time takes long. Two that meet here do the same twice, which does no harm.
        let ordered = known?.updated(to: branch) ?? OrderedIndex(branch, by: query.index)
        state.withLock { state in
            state.uses += 1
            state.kept[place] = Kept(ordered: ordered, lastUse: state.uses)
            if state.kept.count > Self.maxKept, let oldest = state.kept.min(by: { $0.value.lastUse < $1.value.lastUse })
            {
                state.kept[oldest.key] = nil
            }
        }
        return ordered.select(query)
    }
}
