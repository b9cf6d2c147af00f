import Postgres

/// A move that is in progress or was interrupted, as recorded in the primary database.
public struct MoveRecord: Sendable, Equatable {
    public let namespace: String
    /// The names of databases.
    public let source: String
    public let target: String
    /// A text for display.
    public let beganAt: String
    /// Whether the target serves the namespace already, so that only cleanup is left.
    public let hasLeft: Bool

    public init(namespace: String, source: String, target: String, beganAt: String, hasLeft: Bool = false) {
        self.hasLeft = hasLeft
        self.namespace = namespace
        self.source = source
        self.target = target
        self.beganAt = beganAt
    }
}

/// The namespaces in a database that are not served from there.
public struct HiddenNamespaces: Sendable, Equatable {
    /// The names of the namespaces of which the database has dormant copies.
    public var copies: [String] = []
    /// The names of the namespaces that were put aside by hand.
    public var aside: [String] = []

    public init(copies: [String] = [], aside: [String] = []) {
        self.copies = copies
        self.aside = aside
    }
}

extension LogConnection {
    /// Returns all moves recorded in the primary database, ordered by namespace.
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

    /// Returns the hidden namespaces of this database.
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
