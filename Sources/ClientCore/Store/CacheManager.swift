public import Tree
public import Wire

/// Decides which data of a database is stored, which of it serves a query, and which is removed when there is too much.
/// Confined to the thread of its database.
///
/// Data at or below `.info` is never stored.
public final class CacheManager {
    let store: any ClientStore
    var tracked = TrackedQueries()
    /// The loaded children of active filtered queries, by the query's number: most changes add none.
    var activeKeys: [Int64: Set<Key>] = [:]
    /// The number of listens that have ended, and for each query that number when the server last confirmed it.
    var departures = 0
    var confirmed: [QuerySpec: Int] = [:]
    /// Queries for which a listen was sent and not answered, each with the paths at which the store has since received
    /// accepted writes of the client.
    var waiting: [QuerySpec: Set<Path>] = [:]
    /// Queries whose marks have not been stored yet.
    var unsavedMarks: Set<QuerySpec> = []
    /// Whether any query may have a mark.
    var hasMarks = false
    var pruning: CachePruning
    private var generation: Int
    private var lastID: Int64 = 0
    private var lastUse: Int64 = 0

    /// Creates a cache from the data in the store.
    ///
    /// - Parameter budget: the approximate number of bytes of server data that may be stored (see `budget`).
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
        // Queries that were active when the process ended were used last.
        for query in tracked.all().filter(\.isActive).sorted(by: { $0.id < $1.id }) { setActive(query, false) }
    }

    /// The number of bytes of server data that may be stored, from 1 to 100 MB. Data of active and kept-synced queries
    /// remains even if it is more.
    public var budget: Int {
        get { pruning.budget }
        set {
            pruning.budget = newValue
            pruneIfNeeded()
        }
    }

    // MARK: Pending writes

    /// Returns the writes to send after a restart, in order.
    public func pendingWrites() -> [PendingWrite] { store.pendingWrites() }

    /// Saves a write before the call that makes it returns; the write is durable after `commit`.
    public func save(_ write: PendingWrite) {
        guard !write.path.isInfo else { return }
        store.save(write)
    }

    /// Removes a write that was answered or cancelled.
    public func removeWrite(_ id: WriteID) { store.removeWrite(id) }

    // MARK: Listening

    /// Activates a query that gets its first listener, or that is kept synced from now on. Call it also for queries
    /// that a default listen above them covers. Returns the data that serves the query now.
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

    /// Deactivates a query without listeners.
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

    /// Records that the server has sent everything that an active query selects.
    public func complete(_ spec: QuerySpec) {
        guard isOpen(for: spec.path) else { return }
        let spec = Self.normalized(spec)
        if spec.loadsAllData { return completeDefaults(below: spec.path) }
        guard let query = tracked[spec], !query.isComplete else { return }
        setComplete(query)
    }

    /// Records that the server has confirmed the data of a filtered query as its selection. Parts of it may have come
    /// from listens for more data.
    func complete(_ spec: QuerySpec, children: [Key]) {
        guard isOpen(for: spec.path), let query = tracked[Self.normalized(spec)] else { return }
        let children = Set(children)
        if keys(of: query) != children { setKeys(children, of: query) }
        complete(spec)
    }

    // MARK: Storing

    /// Commits changes at the end of each turn of the database's thread, before the app is notified that a write is
    /// stored.
    public func commit() {
        saveMarks()
        store.commit()
    }

    /// Writes everything to the store, when there is nothing else to do and before the database is closed.
    public func flush() {
        saveMarks()
        store.flush()
    }

    // MARK: Tracking

    static func normalized(_ spec: QuerySpec) -> QuerySpec {
        spec.loadsAllData ? QuerySpec(path: spec.path) : spec
    }

    /// Whether the store may be read or written for a path.
    ///
    /// After the store lost its data, no query is tracked: the server sends only changes for the present listens, so
    /// their data cannot be completely known before they are sent again.
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

    /// Marks all default queries at and below a path as complete.
    func completeDefaults(below path: Path) {
        for query in tracked.all(below: path) where !query.isComplete && query.spec.loadsAllData { setComplete(query) }
    }

    /// Tracks a path without listeners whose data is known.
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
    /// The keys of the children, in order.
    var childKeys: [Key] {
        guard case .branch(let branch) = self else { return [] }
        return branch.children.map(\.key)
    }
}

/// The log positions of the queries' data. A mark is committed together with the data, and is never later than the
/// data.
extension CacheManager {
    /// Records the mark of data that the server has sent for a listen.
    public func note(_ mark: LogMark?, of spec: QuerySpec) {
        let spec = Self.normalized(spec)
        guard isOpen(for: spec.path), var query = tracked[spec], query.mark != mark else { return }
        if mark != nil { hasMarks = true }
        query.mark = mark
        tracked.put(query)
        unsavedMarks.insert(spec)
    }

    /// Removes the marks at a path after storing data that is not the server's, or that has no mark.
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

/// Pruning to the budget.
extension CacheManager {
    /// Checks the size, which is readily available, after every change of server data and whenever a query becomes
    /// inactive.
    ///
    /// First, data that no query needs is removed. Then the least recently used queries are removed, a fifth of them at
    /// once, until the size is small enough. Data of active or kept-synced queries remains.
    func pruneIfNeeded() {
        guard pruning.isNeeded(bytes: store.serverDataBytes(), inactive: tracked.inactiveCount) else { return }
        var inactive = tracked.all().filter { !$0.isActive }.sorted { $0.lastUse < $1.lastUse }[...]
        store.prune(below: .root, keeping: keptPaths())
        while !inactive.isEmpty, !pruning.isEnough(bytes: store.serverDataBytes(), inactive: inactive.count) {
            let count = pruning.count(ofInactive: inactive.count)
            for query in inactive.prefix(count) {
                tracked.remove(query.spec)
                store.removeTrackedQuery(query.id)
            }
            inactive = inactive.dropFirst(count)
            store.prune(below: .root, keeping: keptPaths())
        }
        pruning.didPrune(to: store.serverDataBytes())
    }

    /// Returns the paths of the tracked queries' data.
    private func keptPaths() -> [Path] {
        tracked.all().flatMap { query in
            if query.spec.loadsAllData { return [query.spec.path] }
            return keys(of: query).map { query.spec.path.appending($0) }
        }
    }
}

/// Decides when the cache is too large, and how much is removed at once.
public struct CachePruning: Sendable {
    /// 10 MB.
    public static let defaultBudget = 10 << 20
    /// The permitted budgets: 1 to 100 MB.
    public static let budgets = 1 << 20...100 << 20
    /// Maximum number of inactive queries that are tracked.
    static let mostInactive = 1000

    /// The number of bytes of server data that may be stored; within `budgets`.
    public var budget: Int {
        didSet {
            budget = Self.clamped(budget)
            threshold = budget
        }
    }
    /// If nothing could be pruned, pruning is not tried again until the data has grown by a tenth of the budget.
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

    /// Returns the number of inactive queries to remove at once: a fifth, and at least the excess over the maximum.
    func count(ofInactive inactive: Int) -> Int {
        max((inactive + 4) / 5, inactive - Self.mostInactive)
    }

    /// Records that there is new data to prune.
    mutating func queryBecameInactive() { threshold = budget }

    mutating func didPrune(to bytes: Int) { threshold = max(budget, bytes + budget / 10) }
}
