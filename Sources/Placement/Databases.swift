public import Engine
public import Feeds
public import LogStore
import Synchronization

/// The databases of a gateway, and which of them has which namespace: each has an engine, and feeds, of its own, which know of no
/// other one. Any thread may use it. Where there is no database besides the home, it costs one load a question.
public final class Databases: Sendable {
    /// One of them.
    public struct Member: Sendable {
        /// See `EngineSettings.database`.
        public let number: Int
        public let name: String
        public let engine: Engine
        /// Nil where this gateway has no feeds.
        public let feeds: FeedService?

        public init(number: Int, name: String, engine: Engine, feeds: FeedService?) {
            self.number = number
            self.name = name
            self.engine = engine
            self.feeds = feeds
        }
    }

    public let home: Member
    private let map: PlacementMap
    private struct State: Sendable {
        var others: [Member] = []
        var places: [String: Int] = [:]
        /// Names of those that there are; those that were not added could not be reached yet.
        var awaited: [String] = []
        /// Names of those that the home has forgotten, or knows as another database by now.
        var withdrawn: Set<String> = []
        var onAdded: (@Sendable (Member) -> Void)?
    }
    private let state = Mutex(State())

    /// - Parameter map: which namespace is where; all are in the home as long as it says nothing.
    public init(home: Engine, feeds: FeedService? = nil, map: PlacementMap = PlacementMap()) {
        self.home = Member(number: 0, name: DatabaseRecord.home, engine: home, feeds: feeds)
        self.map = map
        // The map is kept here, and must not keep this.
        map.beforeArrivals { [weak self] arrivals in
            for arrival in arrivals {
                self?.member(named: arrival.database)?.engine.expect(arrival.namespace, wasAway: arrival.isNewThere)
            }
        }
    }

    /// All of them, the home first.
    public var all: [Member] { [home] + state.withLock { $0.others } }

    /// The number of the next one that is added.
    public var nextNumber: Int { state.withLock { $0.others.count } + 1 }

    /// Adds one, with the number that `nextNumber` says, and tells who wants to know.
    public func add(_ member: Member) {
        let onAdded = state.withLock { state in
            state.places[member.name] = state.others.count
            state.others.append(member)
            return state.onAdded
        }
        onAdded?(member)
    }

    /// Says which databases there are besides the home. Those that are not added do not answer yet.
    public func await(_ names: [String]) { state.withLock { $0.awaited = names } }

    /// From now on these, and no others, have no namespaces. Those that had some before.
    public func withdraw(_ names: Set<String>) -> [String] {
        state.withLock { state in
            defer { state.withdrawn = names }
            return names.subtracting(state.withdrawn).sorted()
        }
    }

    /// The name of each, and whether it answers, the home first.
    public var reachable: [(name: String, isUp: Bool)] {
        let (others, awaited) = state.withLock { state in
            (
                state.others.filter { !state.withdrawn.contains($0.name) },
                state.awaited.filter { state.places[$0] == nil }
            )
        }
        return ([home] + others).map { ($0.name, $0.engine.health.isUp) } + awaited.map { ($0, false) }
    }

    /// Calls back with each one but the home: those that are there now, and each that is added.
    public func forEachOther(_ body: @escaping @Sendable (Member) -> Void) {
        let known = state.withLock { state in
            state.onAdded = body
            return state.others
        }
        for member in known { body(member) }
    }

    /// By its number.
    public subscript(_ number: Int) -> Member {
        number == 0 ? home : state.withLock { $0.others.indices.contains(number - 1) ? $0.others[number - 1] : home }
    }

    /// The one in which a namespace lives; nil where that is not known here yet.
    public func member(of namespace: String) -> Member? {
        member(named: map.database(of: namespace))
    }

    /// - Parameter database: nil for the home.
    private func member(named database: String?) -> Member? {
        guard let database else { return home }
        return state.withLock { state in
            state.withdrawn.contains(database) ? nil : state.places[database].map { state.others[$0] }
        }
    }

    // MARK: Namespaces

    /// The namespace, if it is in use already.
    public func liveNamespace(_ name: String) -> LiveNamespace? { member(of: name)?.engine.liveNamespace(name) }

    /// Calls back with the namespace once it is loaded: at once where it is in use, else from another thread.
    public func withNamespace(
        _ name: String, _ body: @escaping @Sendable (Result<LiveNamespace, EngineError>) -> Void
    ) {
        guard let member = member(of: name) else {
            return body(.failure(.unavailable("it is not connected yet")))
        }
        member.engine.withNamespace(name, body)
    }

    /// The same for a request that need not have the namespace where its rules refuse that whatever is stored: calls back with nil
    /// then.
    ///
    /// - Parameter isRefused: Whether rules do. Called on any thread, and not where the namespace is in use.
    public func withNamespace(
        _ name: String, unless isRefused: @escaping @Sendable (RulesVersion) -> Bool,
        _ body: @escaping @Sendable (Result<LiveNamespace?, EngineError>) -> Void
    ) {
        guard let member = member(of: name) else {
            return body(.failure(.unavailable("it is not connected yet")))
        }
        member.engine.withNamespace(name, unless: isRefused, body)
    }

    /// The engine of a namespace that was got here.
    public func engine(of namespace: LiveNamespace) -> Engine { self[namespace.key.database].engine }

    /// What the namespaces in memory take of it, together.
    public var memory: MemoryFacts {
        let others = state.withLock { $0.others }
        return others.reduce(home.engine.memory) { $0.adding($1.engine.memory) }
    }
}
