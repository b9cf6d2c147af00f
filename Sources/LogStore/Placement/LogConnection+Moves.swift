import Postgres

/// A move that is under way, or whose mover has ended, as the home knows it.
public struct MoveRecord: Sendable, Equatable {
    public let namespace: String
    /// Names of databases.
    public let source: String
    public let target: String
    /// For people.
    public let beganAt: String
    /// The namespace is served in the target: only clearing up is left.
    public let hasLeft: Bool

    public init(namespace: String, source: String, target: String, beganAt: String, hasLeft: Bool = false) {
        self.hasLeft = hasLeft
        self.namespace = namespace
        self.source = source
        self.target = target
        self.beganAt = beganAt
    }
}

/// What a database has of namespaces that nobody serves from there.
public struct HiddenNamespaces: Sendable, Equatable {
    /// The namespaces of which it has dormant copies.
    public var copies: [String] = []
    /// The names of those that were put aside by hand.
    public var aside: [String] = []

    public init(copies: [String] = [], aside: [String] = []) {
        self.copies = copies
        self.aside = aside
    }
}

extension LogConnection {
    /// All moves that the home knows of, by namespace.
    public func moves() throws(LogStoreError) -> [MoveRecord] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select namespace, source, target, date_trunc('second', began_at)::text, has_left
                from pathmirror.namespace_move order by namespace
                """)
            var found: [MoveRecord] = []
            for row in 0..<rows.rowCount {
                found.append(
                    MoveRecord(
                        namespace: try rows.string(row, 0), source: try rows.string(row, 1),
                        target: try rows.string(row, 2), beganAt: try rows.string(row, 3),
                        hasLeft: try rows.bool(row, 4)))
            }
            return found
        }
    }

    /// What this database has besides the namespaces that live here.
    public func hiddenNamespaces() throws(LogStoreError) -> HiddenNamespaces {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select known.name, copy.namespace from pathmirror.namespace as known
                left join pathmirror.namespace_copy as copy on copy.namespace_id = known.id and copy.is_dormant
                where known.name like '.%' order by known.name
                """)
            var found = HiddenNamespaces()
            for row in 0..<rows.rowCount {
                if rows.isNull(row, 1) {
                    found.aside.append(try rows.string(row, 0))
                } else {
                    found.copies.append(try rows.string(row, 1))
                }
            }
            return found
        }
    }
}
