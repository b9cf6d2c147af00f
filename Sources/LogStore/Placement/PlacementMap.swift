import Synchronization

/// A gateway's knowledge of the databases and of the placement of namespaces. Thread-safe.
/// If all namespaces live in the primary database, a lookup costs one atomic load.
///
/// The knowledge may be outdated, which does no harm in the databases: a namespace is created in another database only
/// under its name's lock and after its placement, so a query to the primary database or to a former database finds no
/// namespace there. Components that keep a namespace's state of a database in memory are notified before the namespace
/// is looked up there again (`beforeArrivals`).
public final class PlacementMap: Sendable {
    private struct State {
        var version: Int64 = -1
        var databases: [DatabaseRecord] = []
        var assigned: [String: String] = [:]
        var onNews: (@Sendable ([DatabaseRecord]) -> Void)?
        var beforeArrivals: (@Sendable ([Arrival]) -> Void)?
    }
    /// A namespace that will be looked up in a database.
    public struct Arrival: Sendable, Equatable {
        public let namespace: String
        /// Nil for the primary database.
        public let database: String?
        /// Whether the namespace was known to be in another database. If false, it may have left and come back since,
        /// or nothing may have happened.
        public let isNewThere: Bool
    }
    private let state = Mutex(State())
    /// Up to this number, changes are applied in place.
    private static let fewChanges = 100
    private let isUsed = Atomic<Bool>(false)

    /// Creates a map in which all namespaces are in the primary database.
    public init() {}

    /// Returns the name of the database in which a namespace lives, or nil for the primary database.
    public func database(of namespace: String) -> String? {
        guard isUsed.load(ordering: .acquiring) else { return nil }
        return state.withLock { $0.assigned[namespace] }
    }

    /// All databases except the primary database.
    public var databases: [DatabaseRecord] { state.withLock { $0.databases } }

    /// Sets a callback that receives all databases when something has changed. It runs on the thread that calls `look`,
    /// and must not block.
    public func onNews(_ body: @escaping @Sendable ([DatabaseRecord]) -> Void) {
        state.withLock { $0.onNews = body }
    }

    /// Sets a callback that receives namespaces with changed placements before `database(of:)` returns them. It runs on
    /// the thread that calls `look`, and must not block.
    public func beforeArrivals(_ body: @escaping @Sendable ([Arrival]) -> Void) {
        state.withLock { $0.beforeArrivals = body }
    }

    /// Reads the changes. Must not be called by two threads at a time.
    ///
    /// - Parameter isNew: whether this is the first look on a connection. The primary database may then be an older
    ///   one, for example restored from a backup, so everything is read.
    public func look(_ connection: LogConnection, isNew: Bool) throws(LogStoreError) {
        let known = isNew ? -1 : state.withLock { $0.version }
        // The version is read first, so that the next look reads changes made in the meantime again.
        let version = try connection.placementVersion()
        guard version != known else { return }
        let databases = try connection.databases()
        let placements = try connection.placements(since: known)
        reportArrivals(placements, isAll: isNew)
        apply(placements, isAll: isNew)
        let onNews = state.withLock { state in
            state.databases = databases
            state.version = version
            return state.onNews
        }
        onNews?(databases)
    }

    private func reportArrivals(_ placements: [(namespace: String, database: String?)], isAll: Bool) {
        let (old, body) = state.withLock { ($0.assigned, $0.beforeArrivals) }
        guard let body else { return }
        var arrivals = placements.map { placement in
            Arrival(
                namespace: placement.namespace, database: placement.database,
                isNewThere: old[placement.namespace] != placement.database)
        }
        if isAll {
            // Most namespaces are where they were, and nothing shows that they have left in the meantime.
            arrivals.removeAll { !$0.isNewThere }
            let known = Set(placements.map(\.namespace))
            for name in old.keys where !known.contains(name) {
                arrivals.append(Arrival(namespace: name, database: nil, isNewThere: true))
            }
        }
        if !arrivals.isEmpty { body(arrivals) }
    }

    /// Many changes are made in a new dictionary, which then replaces the old one, because each request waits for the
    /// lock.
    private func apply(_ placements: [(namespace: String, database: String?)], isAll: Bool) {
        guard isAll || placements.count > Self.fewChanges else {
            return state.withLock { state in
                for (namespace, database) in placements { state.assigned[namespace] = database }
                isUsed.store(!state.assigned.isEmpty, ordering: .releasing)
            }
        }
        var assigned = isAll ? [:] : state.withLock { $0.assigned }
        for (namespace, database) in placements { assigned[namespace] = database }
        let made = assigned
        // The old dictionary is freed outside the lock as well.
        _ = state.withLock { state -> [String: String] in
            let old = state.assigned
            state.assigned = made
            isUsed.store(!made.isEmpty, ordering: .releasing)
            return old
        }
    }
}
