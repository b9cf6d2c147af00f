public import Tree
public import Wire

/// Decides what of a database is kept, what of it serves a query, and what goes when there is too much. Confined to the
/// thread of its database.
///
/// Nothing at or below `.info` is ever kept.
public final class CacheManager {
    let store: any ClientStore
    var tracked = TrackedQueries()
    /// The loaded children of active filtered queries, by the query's number: most changes add none.
    var activeKeys: [Int64: Set<Key>] = [:]
    /// How many listens have ended, and of how many each query had been told when the server confirmed it.
    var departures = 0
    var confirmed: [QuerySpec: Int] = [:]
    /// Queries that the server has been asked for and has not answered, and where the store has since been given the client's accepted
    /// writes in what they select.
    var waiting: [QuerySpec: Set<Path>] = [:]
    /// Queries whose marks are not in the store yet.
    var unsavedMarks: Set<QuerySpec> = []
    /// Whether any query may have a mark.
    var hasMarks = false
    var pruning: CachePruning
    private var generation: Int
    private var lastID: Int64 = 0
    private var lastUse: Int64 = 0

    /// Begins with what the store has.
    ///
    /// - Parameter budget: how many bytes of server data may be kept, more or less (see `budget`).
    public init(store: any ClientStore, budget: Int = CachePruning.defaultBudget) {
        self.store = store
        generation = store.generation
        pruning = CachePruning(budget: budget)
        for query in store.trackedQueries().sorted(by: { ($0.lastUse, $0.id) < ($1.lastUse, $1.id) }) {
            lastID = max(lastID, query.id)
            lastUse = max(lastUse, query.lastUse)
            tracked.put(query)
            if query.mark != nil { hasMarks = true }
        }
        // What was listened to when the process ended was used last.
        for query in tracked.all().filter(\.isActive).sorted(by: { $0.id < $1.id }) { setActive(query, false) }
    }

    /// How many bytes of server data may be kept, from 1 to 100 MB. What is listened to or kept synced stays even if it
    /// is more.
    public var budget: Int {
        get { pruning.budget }
        set {
            pruning.budget = newValue
            pruneIfNeeded()
        }
    }

    // MARK: Pending writes

    /// After a restart: what has to be sent, in order.
    public func pendingWrites() -> [PendingWrite] { store.pendingWrites() }

    /// Before a write's call returns; it is safe after `commit`.
    public func save(_ write: PendingWrite) {
        guard !write.path.isInfo else { return }
        store.save(write)
    }

    /// The write was answered or taken back.
    public func removeWrite(_ id: WriteID) { store.removeWrite(id) }

    // MARK: Listening

    /// Somebody listens to a query that nobody listened to before, or it is kept synced from now on. Call it for queries
    /// that are shadowed by a default listen above them too. Returns what serves it now.
    public func activate(_ spec: QuerySpec) -> CachedQuery {
        guard isOpen(for: spec.path) else { return .nothing }
        let spec = Self.normalized(spec)
        let served = cached(spec)
        var query = tracked[spec] ?? newQuery(spec)
        if served.isComplete, !query.isComplete {
            query.isComplete = true
            if !spec.loadsAllData {
                let selected = spec.query.select(from: served.node)
                store.save(query)
                setKeys(Set(selected.childKeys), of: query)
            }
        }
        setActive(query, true)
        return served
    }

    /// Nobody listens any longer.
    public func deactivate(_ spec: QuerySpec) {
        guard isOpen(for: spec.path), let query = tracked[Self.normalized(spec)] else { return }
        let hasNothing = !query.isComplete && (query.spec.loadsAllData || keys(of: query).isEmpty)
        activeKeys[query.id] = nil
        departures += 1
        confirmed[query.spec] = nil
        waiting[query.spec] = nil
        if hasNothing {
            tracked.remove(query.spec)
            store.removeTrackedQuery(query.id)
        } else {
            setActive(query, false)
        }
        pruning.queryBecameInactive()
        pruneIfNeeded()
    }

    /// The server has sent all that an active query selects.
    public func complete(_ spec: QuerySpec) {
        guard isOpen(for: spec.path) else { return }
        let spec = Self.normalized(spec)
        if spec.loadsAllData { return completeDefaults(below: spec.path) }
        guard let query = tracked[spec], !query.isComplete else { return }
        setComplete(query)
    }

    /// The server has said that what a filtered query has is what it selects. Some of it may have come by listens to more.
    func complete(_ spec: QuerySpec, children: [Key]) {
        guard isOpen(for: spec.path), let query = tracked[Self.normalized(spec)] else { return }
        let children = Set(children)
        if keys(of: query) != children { setKeys(children, of: query) }
        complete(spec)
    }

    // MARK: Keeping

    /// At the end of each turn of the database's thread, before anybody is told that a write is kept.
    public func commit() {
        saveMarks()
        store.commit()
    }

    /// When there is nothing else to do, and before the database goes away.
    public func flush() {
        saveMarks()
        store.flush()
    }

    // MARK: Tracking

    static func normalized(_ spec: QuerySpec) -> QuerySpec {
        spec.loadsAllData ? QuerySpec(path: spec.path) : spec
    }

    /// Whether anything is to be read or written for a path.
    ///
    /// After the store lost its data nothing is tracked: of what is listened to now, the server sends only what changes,
    /// so that it can't be known completely before it is listened to anew.
    func isOpen(for path: Path) -> Bool {
        guard store.isUsable else { return false }
        if store.generation != generation {
            generation = store.generation
            tracked = TrackedQueries()
            activeKeys = [:]
            waiting = [:]
        }
        return !path.isInfo
    }

    private func newQuery(_ spec: QuerySpec) -> TrackedQuery {
        lastID += 1
        return TrackedQuery(id: lastID, spec: spec, lastUse: lastUse, isComplete: false, isActive: false)
    }

    private func setActive(_ query: TrackedQuery, _ isActive: Bool) {
        var query = query
        lastUse += 1
        query.lastUse = lastUse
        query.isActive = isActive
        keep(query)
    }

    private func setComplete(_ query: TrackedQuery) {
        var query = query
        query.isComplete = true
        keep(query)
    }

    private func keep(_ query: TrackedQuery) {
        tracked.put(query)
        store.save(query)
    }

    /// Everything at and below a path is there.
    func completeDefaults(below path: Path) {
        for query in tracked.all(below: path) where !query.isComplete && query.spec.loadsAllData { setComplete(query) }
    }

    /// Keeps a place that nobody listens to, but that is known.
    func trackAsComplete(_ path: Path) {
        guard tracked.completeDefault(over: path) == nil else { return }
        let spec = QuerySpec(path: path)
        var query = tracked[spec] ?? newQuery(spec)
        query.isComplete = true
        setActive(query, query.isActive)
    }

    // MARK: The children of filtered queries

    func keys(of query: TrackedQuery) -> Set<Key> {
        if let keys = activeKeys[query.id] { return keys }
        let keys = store.trackedKeys(query.id)
        if query.isActive { activeKeys[query.id] = keys }
        return keys
    }

    func setKeys(_ keys: Set<Key>, of query: TrackedQuery) {
        activeKeys[query.id] = keys
        store.setTrackedKeys(keys, of: query.id)
    }

    func updateKey(_ key: Key, isLoaded: Bool, of query: TrackedQuery) {
        guard keys(of: query).contains(key) != isLoaded else { return }
        if isLoaded {
            activeKeys[query.id, default: []].insert(key)
            store.updateTrackedKeys(adding: [key], removing: [], of: query.id)
        } else {
            activeKeys[query.id, default: []].remove(key)
            store.updateTrackedKeys(adding: [], removing: [key], of: query.id)
        }
    }
}

extension Node {
    /// In order.
    var childKeys: [Key] {
        guard case .branch(let branch) = self else { return [] }
        return branch.children.map(\.key)
    }
}

/// As of which entry of the server's log the queries' data is. A mark is committed together with the data, and is never of a
/// later entry than that.
extension CacheManager {
    /// The server has sent data of a listen.
    public func note(_ mark: LogMark?, of spec: QuerySpec) {
        let spec = Self.normalized(spec)
        guard isOpen(for: spec.path), var query = tracked[spec], query.mark != mark else { return }
        if mark != nil { hasMarks = true }
        query.mark = mark
        tracked.put(query)
        unsavedMarks.insert(spec)
    }

    /// Something has been put at a place that is not the server's, or of which it did not say as of when it is.
    public func forgetMarks(at path: Path) {
        guard hasMarks, isOpen(for: path) else { return }
        for query in tracked.overlapping(path) where query.mark != nil { note(nil, of: query.spec) }
    }

    func saveMarks() {
        guard !unsavedMarks.isEmpty else { return }
        for spec in unsavedMarks {
            if let query = tracked[spec] { store.save(query) }
        }
        unsavedMarks = []
    }
}

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

/// When the cache is too large, and how much of it goes at once.
public struct CachePruning: Sendable {
    /// 10 MB.
    public static let defaultBudget = 10 << 20
    /// What a budget may be: 1 to 100 MB.
    public static let budgets = 1 << 20...100 << 20
    /// More queries that nobody listens to are not remembered.
    static let mostInactive = 1000

    /// How many bytes of server data may be kept; within `budgets`.
    public var budget: Int {
        didSet {
            budget = Self.clamped(budget)
            threshold = budget
        }
    }
    /// Where nothing could be pruned, it is not tried again before there is a tenth of the budget more.
    private var threshold: Int

    public init(budget: Int) {
        self.budget = Self.clamped(budget)
        threshold = self.budget
    }

    private static func clamped(_ budget: Int) -> Int {
        min(max(budget, budgets.lowerBound), budgets.upperBound)
    }

    func isNeeded(bytes: Int, inactive: Int) -> Bool { bytes > threshold || inactive > Self.mostInactive }

    func isEnough(bytes: Int, inactive: Int) -> Bool { bytes <= budget && inactive <= Self.mostInactive }

    /// How many of the inactive queries go at once: a fifth, and all that are too many.
    func count(ofInactive inactive: Int) -> Int {
        max((inactive + 4) / 5, inactive - Self.mostInactive)
    }

    /// There is something to prune that there was not.
    mutating func queryBecameInactive() { threshold = budget }

    mutating func didPrune(to bytes: Int) { threshold = max(budget, bytes + budget / 10) }
}
