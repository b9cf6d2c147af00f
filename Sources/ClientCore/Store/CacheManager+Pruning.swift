internal import Tree

/// Keeping within the budget.
extension CacheManager {
    /// Looks at the size, which is at hand, after every change of server data and whenever a query becomes inactive.
    ///
    /// First goes what no query needs any longer. Then the queries that were not used for longest, a fifth of them at
    /// once, until it is enough. What somebody listens to, or what is kept synced, stays.
    func pruneIfNeeded() {
        guard pruning.isNeeded(bytes: store.serverDataBytes(), inactive: tracked.inactiveCount) else { return }
        var inactive = tracked.all().filter { !$0.isActive }.sorted { $0.lastUse < $1.lastUse }[...]
        store.prune(below: .root, keeping: places())
        while !inactive.isEmpty, !pruning.isEnough(bytes: store.serverDataBytes(), inactive: inactive.count) {
            let count = pruning.count(ofInactive: inactive.count)
            for query in inactive.prefix(count) {
                tracked.remove(query.spec)
                store.removeTrackedQuery(query.id)
            }
            inactive = inactive.dropFirst(count)
            store.prune(below: .root, keeping: places())
        }
        pruning.didPrune(to: store.serverDataBytes())
    }

    /// Where the data of the tracked queries is.
    private func places() -> [Path] {
        tracked.all().flatMap { query in
            if query.spec.loadsAllData { return [query.spec.path] }
            return keys(of: query).map { query.spec.path.appending($0) }
        }
    }
}
