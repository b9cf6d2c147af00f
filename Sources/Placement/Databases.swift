public import Engine
public import Feeds
public import LogStore
import Synchronization

/// The databases of a gateway, and which of them has which namespace. Each has an engine and feeds of its own, which do
/// not know the others. Any thread may use it.
/// If there is only the primary database, a lookup costs one atomic load.
public final class Databases: Sendable {
    /// A database with its engine and feeds.
    public struct Member: Sendable {
        /// See `EngineSettings.database`.
        public let number: Int
        public let name: String
        public let engine: Engine
        /// Nil if this gateway runs no feeds.
        public let feeds: FeedService?

        public init(number: Int, name: String, engine: Engine, feeds: FeedService?) {
            self.number = number
            self.name = name
            self.engine = engine
            self.feeds = feeds
        }
    }

    public let primary: Member
    private let map: PlacementMap
    private struct State: Sendable {
        var others: [Member] = []
        var indices: [String: Int] = [:]
        /// The names of the configured databases. Those that were not added could not be reached yet.
        var awaited: [String] = []
        /// The names of databases that the primary database has removed, or has replaced by another database.
        var withdrawn: Set<String> = []
        var onAdded: (@Sendable (Member) -> Void)?
    }
    private let state = Mutex(State())

    /// - Parameter map: the placements of namespaces; all are in the primary database as long as it has none.
    public init(primary: Engine, feeds: FeedService? = nil, map: PlacementMap = PlacementMap()) {
        self.primary = Member(number: 0, name: DatabaseRecord.primary, engine: primary, feeds: feeds)
        self.map = map
        // The map is retained here, and must not retain this object.
        map.beforeArrivals { [weak self] arrivals in
            for arrival in arrivals {
                self?.member(named: arrival.database)?.engine.expect(arrival.namespace, wasAway: arrival.isNewThere)
            }
        }
    }

    /// All databases, the primary one first.
    public var all: [Member] { [primary] + state.withLock { $0.others } }

    /// The number of the next database to be added.
    public var nextNumber: Int { state.withLock { $0.others.count } + 1 }

    /// Adds a database, which must have the number `nextNumber`, and calls the function set by `forEachOther`.
    public func add(_ member: Member) {
        let onAdded = state.withLock { state in
            state.indices[member.name] = state.others.count
            state.others.append(member)
            return state.onAdded
        }
        onAdded?(member)
    }

    /// Sets the names of the databases besides the primary one. Those that are not added do not answer yet.
    public func await(_ names: [String]) { state.withLock { $0.awaited = names } }

    /// Sets the names of the databases without namespaces. Returns the names that are new among them.
    public func withdraw(_ names: Set<String>) -> [String] {
        state.withLock { state in
            defer { state.withdrawn = names }
            return names.subtracting(state.withdrawn).sorted()
        }
    }

    /// The name of each database, and whether it answers, the primary one first.
    public var reachable: [(name: String, isUp: Bool)] {
        let (others, awaited) = state.withLock { state in
            (
                state.others.filter { !state.withdrawn.contains($0.name) },
                state.awaited.filter { state.indices[$0] == nil }
            )
        }
        return ([primary] + others).map { ($0.name, $0.engine.health.isUp) } + awaited.map { ($0, false) }
    }

    /// Calls back with each database except the primary one: the present ones now, and each further one when it is
    /// added.
    public func forEachOther(_ body: @escaping @Sendable (Member) -> Void) {
        let known = state.withLock { state in
            state.onAdded = body
            return state.others
        }
        for member in known { body(member) }
    }

    /// The database with this number; the primary one if there is none.
    public subscript(_ number: Int) -> Member {
        number == 0
            ? primary : state.withLock { $0.others.indices.contains(number - 1) ? $0.others[number - 1] : primary }
    }

    /// Returns the database of a namespace; nil if that database is not connected yet.
    public func member(of namespace: String) -> Member? {
        member(named: map.database(of: namespace))
    }

    /// - Parameter database: nil for the primary database.
    private func member(named database: String?) -> Member? {
        guard let database else { return primary }
        return state.withLock { state in
            state.withdrawn.contains(database) ? nil : state.indices[database].map { state.others[$0] }
        }
    }

    // MARK: Namespaces

    /// Returns the namespace if it is in memory.
    public func liveNamespace(_ name: String) -> LiveNamespace? { member(of: name)?.engine.liveNamespace(name) }

    /// Calls back with the namespace once it is loaded: immediately if it is in memory, otherwise from another thread.
    public func withNamespace(
        _ name: String, _ body: @escaping @Sendable (Result<LiveNamespace, EngineError>) -> Void
    ) {
        guard let member = member(of: name) else {
            return body(.failure(.unavailable("not connected yet")))
        }
        member.engine.withNamespace(name, body)
    }

    /// Calls back with the namespace, or with nil if its rules refuse the request independently of the tree. The tree
    /// is not read for a request that the rules refuse.
    ///
    /// - Parameter isRefused: Returns whether the rules refuse the request. Called on any thread; not called if the
    ///   namespace is loaded.
    public func withNamespace(
        _ name: String, unless isRefused: @escaping @Sendable (RulesVersion) -> Bool,
        _ body: @escaping @Sendable (Result<LiveNamespace?, EngineError>) -> Void
    ) {
        guard let member = member(of: name) else {
            return body(.failure(.unavailable("not connected yet")))
        }
        member.engine.withNamespace(name, unless: isRefused, body)
    }

    /// Returns the engine of a namespace that came from this object.
    public func engine(of namespace: LiveNamespace) -> Engine { self[namespace.key.database].engine }

    /// The memory use of the namespaces of all databases.
    public var memory: MemoryFacts {
        let others = state.withLock { $0.others }
        return others.reduce(primary.engine.memory) { $0.adding($1.engine.memory) }
    }
}
