import Synchronization
public import Tree

/// The ordered indexes of a namespace that queries have used. Each is updated when it is used again.
/// Any thread.
public final class IndexCache: Sendable {
    private struct CacheKey: Hashable {
        let path: Path
        let index: Query.Index
    }

    private struct Kept {
        var ordered: OrderedIndex
        var lastUse: UInt64
        /// The number of the index's children if the rules do not declare the index, otherwise 0.
        var undeclared: Int
        /// The number of the index's children.
        var children: Int
    }

    private struct State {
        var kept: [CacheKey: Kept] = [:]
        var uses: UInt64 = 0
        var undeclared = 0
        /// The number of children of all indexes.
        var children = 0

        mutating func remove(_ key: CacheKey) {
            guard let kept = kept.removeValue(forKey: key) else { return }
            undeclared -= kept.undeclared
            children -= kept.children
        }
    }

    /// With fewer children than this, a scan of all of them is as fast.
    private static let minChildren = 256
    /// Maximum number of cached indexes; the least recently used one is removed.
    private static let maxKept = 256
    /// Maximum number of children in all cached indexes that the rules do not declare.
    private static let maxUndeclared = 1_000_000
    private let state = Mutex(State())
    private let memory: NamespaceMemory?

    /// - Parameter memory: the estimate to which the indexes are added.
    init(_ memory: NamespaceMemory? = nil) { self.memory = memory }

    /// Returns the part of the node at a path that a query selects.
    ///
    /// - Parameters:
    ///   - isDeclared: whether the rules declare the index there; a declared index is cached.
    ///   - isFollowed: whether the query is repeated after every change, as for listeners. Its index is also cached
    ///     while the limit permits, as otherwise each write would cost a scan of all children.
    public func select(
        _ query: Query, from node: Node, at path: Path, isDeclared: Bool, isFollowed: Bool = false
    ) -> Node {
        guard isDeclared || isFollowed, query.index != .key, !query.selectsAll, case .branch(let branch) = node,
            branch.children.count >= Self.minChildren
        else { return query.select(from: node) }
        let key = CacheKey(path: path, index: query.index)
        let (known, hasRoom) = state.withLock { state -> (OrderedIndex?, Bool) in
            if let kept = state.kept[key] { return (kept.ordered, true) }
            return (nil, isDeclared || state.undeclared + branch.children.count <= Self.maxUndeclared)
        }
        guard hasRoom else { return query.select(from: node) }
        // Outside the lock: the first build takes long. If two threads build the same index, one result is discarded.
        let ordered = known?.updated(to: branch) ?? OrderedIndex(branch, by: query.index)
        let added = state.withLock { state -> Int in
            let before = state.children
            state.uses += 1
            state.remove(key)
            let count = branch.children.count
            state.kept[key] = Kept(
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
