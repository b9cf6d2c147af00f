import Synchronization

/// What a gateway knows of the databases and of which namespace lives in which. Any thread may ask. Where all namespaces live in
/// the home, asking costs one load.
///
/// What is known may be old. That does no harm: a namespace is made in another database only under its name's lock and behind
/// its placement, so whoever asks the home, or a database where it lived before, finds none there.
public final class PlacementMap: Sendable {
    private struct State {
        var version: Int64 = -1
        var databases: [DatabaseRecord] = []
        var places: [String: String] = [:]
        var onNews: (@Sendable ([DatabaseRecord]) -> Void)?
    }
    private let state = Mutex(State())
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

    /// Reads what has changed.
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
        let onNews = state.withLock { state in
            if isNew { state.places = [:] }
            for (namespace, database) in placements { state.places[namespace] = database }
            state.databases = databases
            state.version = version
            isUsed.store(!state.places.isEmpty, ordering: .releasing)
            return state.onNews
        }
        onNews?(databases)
    }
}
