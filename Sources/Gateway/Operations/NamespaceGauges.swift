import Engine
import Tree

/// What the metrics say of namespaces: of each for the oldest thousand that are loaded, of all others together. A series for
/// each of some ten thousands would be megabytes a scrape, and more series than a Prometheus wants of one program.
struct NamespaceGauges {
    /// What is told of one namespace, or of the others.
    struct Facts: Equatable {
        let name: String
        /// Nil for the others, whose heads have nothing to do with one another.
        var head: Int?
        /// Of the others: the largest.
        var lag: Int
        var rows: Int
        var waiting: Int
    }

    /// How many namespaces have series of their own.
    static let mostNamed = 1_000
    /// No namespace can be called so.
    static let others = "*"

    let count: Int
    let facts: [Facts]

    /// - Parameter loaded: what is told of each loaded namespace, the oldest first.
    init(_ loaded: [Facts]) {
        count = loaded.count
        var facts = Array(loaded.prefix(Self.mostNamed))
        if loaded.count > Self.mostNamed {
            var others = Facts(name: Self.others, head: nil, lag: 0, rows: 0, waiting: 0)
            for fact in loaded.dropFirst(Self.mostNamed) {
                others.lag = max(others.lag, fact.lag)
                others.rows += fact.rows
                others.waiting += fact.waiting
            }
            facts.append(others)
        }
        self.facts = facts
    }

    init(_ namespaces: [LiveNamespace]) {
        // Always the same ones, as series that come and go are no use.
        let ordered =
            namespaces.count > Self.mostNamed
            ? namespaces.sorted { ($0.key.database, $0.id) < ($1.key.database, $1.id) } : namespaces
        self.init(
            ordered.map { namespace in
                let snapshot = namespace.snapshot
                return Facts(
                    name: namespace.name, head: Int(snapshot.seq), lag: Int(namespace.lag),
                    rows: snapshot.root.rowCount, waiting: namespace.waitingWrites)
            })
    }
}
