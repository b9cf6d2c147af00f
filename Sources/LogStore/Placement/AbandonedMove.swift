import Postgres

/// Ends a move whose target is gone for good, from what the home and the source know. Whatever the target has stays as it is.
public struct AbandonedMove {
    /// What has become of the namespace.
    public enum Outcome: Sendable, Equatable {
        /// It lives in the source, as it did all the time.
        case stays
        /// It was removed from the source for good before.
        case removed
        /// It had left the source, so that only the target had it. The home says from now on that it is placed in the source, where it is
        /// not: its name can be used again. What the source has not cleared up is still there, under this id; nil where nothing is
        /// known of it there.
        case isLost(id: Int64?)

        fileprivate var isLost: Bool { if case .isLost = self { true } else { false } }
    }

    private let namespace: String
    private let home: LogConnection
    private let source: NamespaceMover.Place
    private let target: String

    /// - Parameter target: The target's name. The caller has found that it can't be reached.
    public init(_ namespace: String, home: LogConnection, from source: NamespaceMover.Place, to target: String) {
        self.namespace = namespace
        self.home = home
        self.source = source
        self.target = target
    }

    /// - Throws: `misplaced` where the home does not know of this move any more, or somebody else moves the namespace.
    public func run() throws -> Outcome {
        try NamespaceMover.lock(namespace, home, seed: NamespaceMover.homeSeed)
        try NamespaceMover.lock(namespace, source.connection, seed: NamespaceMover.placeSeed)
        return try NamespaceMover.inTransaction(home) { postgres in
            _ = try postgres.execute("select pathmirror.lock_name($1)", [.text(namespace)])
            guard let record = try NamespaceMover.record(of: namespace, from: source.name, to: target, home) else {
                throw LogStoreError.misplaced("The home knows of no move of \"\(namespace)\" any more.")
            }
            let outcome = try outcome(record)
            if outcome.isLost || record.hasLeft {
                _ = try postgres.execute(
                    "select pathmirror.replace_placement($1, $2)",
                    [.text(namespace), source.placement.map { .text($0) } ?? .null(.text)])
            }
            _ = try postgres.execute(
                "delete from pathmirror.namespace_move where namespace = $1 and id = $2::text::uuid",
                [.text(namespace), .text(record.id)])
            return outcome
        }
    }

    private func outcome(_ record: NamespaceMover.Record) throws -> Outcome {
        switch try NamespaceMover.sourceFact(record, of: namespace, source.connection) {
        case .living: .stays
        case .removed: .removed
        case .former: .isLost(id: record.sourceID)
        case .unknown: .isLost(id: nil)
        }
    }
}
