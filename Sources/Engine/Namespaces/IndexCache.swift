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
        /// Its children, where only listeners want it.
        var undeclared: Int
        /// Its children.
        var children: Int
    }

    private struct State {
        var kept: [Place: Kept] = [:]
        var uses: UInt64 = 0
        var undeclared = 0
        /// Of all indexes.
        var children = 0

        mutating func remove(_ place: Place) {
            guard let kept = kept.removeValue(forKey: place) else { return }
            undeclared -= kept.undeclared
            children -= kept.children
        }
    }

    /// Below so many children a pass over all of them is as good.
    private static let minChildren = 256
    /// The most indexes that are kept; the one that was not used for the longest time goes.
    private static let maxKept = 256
    /// The most children in all kept indexes that the rules don't declare.
    private static let maxUndeclared = 1_000_000
    private let state = Mutex(State())
    private let memory: NamespaceMemory?

    /// - Parameter memory: what the indexes are counted to.
    init(_ memory: NamespaceMemory? = nil) { self.memory = memory }

    /// What a query selects from the node at a path.
    ///
    /// - Parameters:
    ///   - isDeclared: whether the rules declare its index there: then one is kept.
    ///   - isFollowed: whether it will be asked for again after every change, as listeners do: then one is kept, too,
    ///     while there is room, or each write would cost a pass over all children.
    public func select(
        _ query: Query, from node: Node, at path: Path, isDeclared: Bool, isFollowed: Bool = false
    ) -> Node {
        guard isDeclared || isFollowed, query.index != .key, !query.selectsAll, case .branch(let branch) = node,
            branch.children.count >= Self.minChildren
        else { return query.select(from: node) }
        let place = Place(path: path, index: query.index)
        let (known, hasRoom) = state.withLock { state -> (OrderedIndex?, Bool) in
            if let kept = state.kept[place] { return (kept.ordered, true) }
            return (nil, isDeclared || state.undeclared + branch.children.count <= Self.maxUndeclared)
        }
        guard hasRoom else { return query.select(from: node) }
        // Outside the lock: the first time takes long. Two that meet here do the same twice, which does no harm.
        let ordered = known?.updated(to: branch) ?? OrderedIndex(branch, by: query.index)
        let added = state.withLock { state -> Int in
            let before = state.children
            state.uses += 1
            state.remove(place)
            let count = branch.children.count
            state.kept[place] = Kept(
                ordered: ordered, lastUse: state.uses, undeclared: isDeclared ? 0 : count, children: count)
            state.undeclared += isDeclared ? 0 : count
            state.children += count
            if state.kept.count > Self.maxKept, let oldest = state.kept.min(by: { $0.value.lastUse < $1.value.lastUse })
            {
                state.remove(oldest.key)
            }
            return state.children - before
        }
        if added != 0 { memory?.index(by: added * NamespaceMemory.bytesOfIndexed) }
        return ordered.select(query)
    }
}
