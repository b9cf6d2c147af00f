import Synchronization

/// What a gateway knows of the databases and of which namespace lives in which. Any thread may ask. Where all namespaces live in
/// the home, asking costs one load.
///
/// What is known may be old. In the databases that does no harm: a namespace is made in another one only under its name's lock and
/// behind its placement, so whoever asks the home, or a database where it lived before, finds none there. Whoever keeps in memory
/// what a namespace was in a database is told before it is looked for there again (`beforeArrivals`).
public final class PlacementMap: Sendable {
    private struct State {
        var version: Int64 = -1
        var databases: [DatabaseRecord] = []
        var places: [String: String] = [:]
        var onNews: (@Sendable ([DatabaseRecord]) -> Void)?
        var beforeArrivals: (@Sendable ([Arrival]) -> Void)?
    }
    /// A namespace that will be looked for in a database.
    public struct Arrival: Sendable, Equatable {
        public let namespace: String
        /// Nil for the home.
        public let database: String?
        /// It was known to be in another one. Else it may have left and come back since, or nothing may have happened.
        public let isNewThere: Bool
    }
    private let state = Mutex(State())
    /// So many changes are made in place.
    private static let fewChanges = 100
    private let isUsed = Atomic<Bool>(false)

    /// Knows nothing: all namespaces are in the home.
    public init() {}

    /// The database in which a namespace lives; nil for the home.
    public func database(of namespace: String) -> String? {
        guard isUsed.load(ordering: .acquiring) else { return nil }
        return state.withLock { $0.places[namespace] }
    }

    /// All databases besides the home.
    public var databases: [DatabaseRecord] { state.withLock { $0.databases } }

    /// Calls back with all databases when something has changed, on the thread that looked; must return soon.
    public func onNews(_ body: @escaping @Sendable ([DatabaseRecord]) -> Void) {
        state.withLock { $0.onNews = body }
    }

    /// Calls back with namespaces whose place has been set, before anybody is told of the place; on the thread that looked. Must
    /// return soon.
    public func beforeArrivals(_ body: @escaping @Sendable ([Arrival]) -> Void) {
        state.withLock { $0.beforeArrivals = body }
    }

    /// Reads what has changed. For one thread at a time.
    ///
    /// - Parameter isNew: this is the first look on a connection: the home may be an older one than before, such as one that a
    ///   backup was restored to. All of it is read then.
    public func look(_ connection: LogConnection, isNew: Bool) throws(LogStoreError) {
        let known = isNew ? -1 : state.withLock { $0.version }
        // Taken first: what is changed meanwhile is read once more by the next look.
        let version = try connection.placementVersion()
        guard version != known else { return }
        let databases = try connection.databases()
        let placements = try connection.placements(since: known)
        tellOfArrivals(placements, isAll: isNew)
        apply(placements, isAll: isNew)
        let onNews = state.withLock { state in
            state.databases = databases
            state.version = version
            return state.onNews
        }
        onNews?(databases)
    }

    private func tellOfArrivals(_ placements: [(namespace: String, database: String?)], isAll: Bool) {
        let (old, body) = state.withLock { ($0.places, $0.beforeArrivals) }
        guard let body else { return }
        var arrivals = placements.map { place in
            Arrival(
                namespace: place.namespace, database: place.database,
                isNewThere: old[place.namespace] != place.database)
        }
        if isAll {
            // Most of them are where they were, and nothing says that they have left meanwhile.
            arrivals.removeAll { !$0.isNewThere }
            let known = Set(placements.map(\.namespace))
            for name in old.keys where !known.contains(name) {
                arrivals.append(Arrival(namespace: name, database: nil, isNewThere: true))
            }
        }
        if !arrivals.isEmpty { body(arrivals) }
    }

    /// Many changes make another dictionary, which then takes the place of the old one: each request waits for the lock.
    private func apply(_ placements: [(namespace: String, database: String?)], isAll: Bool) {
        guard isAll || placements.count > Self.fewChanges else {
            return state.withLock { state in
                for (namespace, database) in placements { state.places[namespace] = database }
                isUsed.store(!state.places.isEmpty, ordering: .releasing)
            }
        }
        var places = isAll ? [:] : state.withLock { $0.places }
        for (namespace, database) in placements { places[namespace] = database }
        let made = places
        // The old one is taken apart outside of the lock as well.
        _ = state.withLock { state -> [String: String] in
            let old = state.places
            state.places = made
            isUsed.store(!made.isEmpty, ordering: .releasing)
            return old
        }
    }
}
