import Postgres
public import Tree

/// Data that is derived from the tree and stored separately, such as a mirror's table. `log verify` compares it with
/// the tree.
public protocol VerifiableProjection {
    /// The name in messages, such as `mirror posts`.
    var name: String { get }
    /// Returns the entry up to which the data is current, or nil while it is being built. Called first, inside the
    /// transaction (repeatable read, read only) of the whole verification.
    func cursor(_ connection: LogConnection) throws -> Int64?
    /// Compares the data with the tree at entry `seq`, its cursor, in the same transaction. Returns each difference as
    /// a sentence. If there are many, returns the first ones and their number.
    func compare(with root: Node, at seq: Int64, _ connection: LogConnection) throws -> [String]
}

/// Rebuilds a namespace's tree from its log and compares it with the stored one.
public struct Verification: Sendable {
    public struct Difference: Sendable, Equatable {
        public let path: String
        /// The value in the log. Null for no value.
        public let logged: Node
        /// The value in the tree's table.
        public let stored: Node
    }

    public let head: Int64
    /// The seq of the snapshot from which the tree was rebuilt, or 0 for the empty tree.
    public let startSeq: Int64
    public let entryCount: Int64
    public let rowCount: Int
    /// Problems with the log itself, as sentences.
    public let problems: [String]
    /// The names of the projections that were compared.
    public let projections: [String]
    /// The first differences; `differenceCount` counts all.
    public let differences: [Difference]
    public let differenceCount: Int

    public var isClean: Bool { problems.isEmpty && differenceCount == 0 }

    /// The progress of a verification.
    public enum Progress: Sendable {
        /// The amount to read.
        case begins(entries: Int64, bulk: BulkRead, rows: Int64)
        /// The number of entries read.
        case entries(Int64)
        /// The amount read from snapshots and bulk entries.
        case bulk(BulkRead)
        /// The name of the derived data that is being compared with the tree.
        case comparing(String)
        /// The number of rows of the stored tree read.
        case rows(Int64)
    }

    static let maxDifferences = 100

    /// Reads everything from one snapshot of the database. Writers are not blocked.
    ///
    /// Starts from the snapshot before the pruned log, or else from the empty tree. Compares the rebuilt tree with
    /// every later snapshot, with each projection at its cursor, and with the stored tree.
    public static func run(
        _ connection: LogConnection, _ namespace: NamespaceRecord, projections: [any VerifiableProjection] = [],
        progress: @escaping (Progress) throws -> Void = { _ in }
    ) throws -> Verification {
        try connection.inReadTransaction {
            guard let record = try connection.namespace(id: namespace.id) else {
                throw LogStoreError.unknownNamespace(namespace.name)
            }
            let snapshots = try connection.snapshots(record.id).filter { $0.seq >= record.retainedFrom - 1 }
            let start = record.retainedFrom > 1 ? snapshots.first?.seq : nil
            var checks = Checks(snapshots: snapshots.map(\.seq).filter { $0 > start ?? 0 })
            if record.retainedFrom > 1, start != record.retainedFrom - 1 {
                checks.problems.append(
                    "The log begins at seq \(record.retainedFrom), and there is no snapshot of the tree before that seq"
                        + (start.map { ": only the entries after seq \($0) are verified." }
                            ?? ": the tree can't be rebuilt."))
            }
            for projection in projections { try checks.add(projection, connection) }
            let rowsInTable = try connection.postgres.execute(
                "select count(*) from pathmirror.node where namespace_id = $1", [.int8(record.id)]
            ).int64(0, 0)
            let from = PastTree.Start(namespace: record.id, snapshot: snapshots.first { $0.seq == start })
            let bulk = try PastTree.bulk(connection, from: from, to: record.head)
            try progress(.begins(entries: record.head - from.seq, bulk: bulk, rows: rowsInTable))
            var tree = try PastTree(connection, from: from) { try progress(.bulk($0)) }
            // Without a snapshot to start from, the remaining log is still checked for gaps.
            if start == nil, record.retainedFrom > 1 { tree.skip(to: record.retainedFrom - 1) }
            try rebuild(&tree, connection, record, &checks, progress)
            var builder = TreeBuilder()
            var rowsRead: Int64 = 0
            try connection.forEachNode(record.id) { path, value, isLong in
                if isLong {
                    builder.addUnordered(Path(splitting: String(decoding: path, as: UTF8.self)), value)
                } else {
                    builder.add(path, value)
                }
                rowsRead += 1
                if rowsRead % 10_000 == 0 { try progress(.rows(rowsRead)) }
            }
            let stored = builder.finish()
            if rowsInTable != stored.rowCount {
                checks.problems.append(
                    "The tree's table has \(rowsInTable) rows, but they build a tree of \(stored.rowCount) rows.")
            }
            var diff = RowDiff(DifferenceSink())
            diff.compare(tree.root, stored, changedAt: .root)
            return Verification(
                head: record.head, startSeq: tree.startSeq, entryCount: tree.entryCount, rowCount: Int(rowsInTable),
                problems: checks.problems, projections: checks.verified, differences: diff.sink.first,
                differenceCount: diff.sink.count)
        }
    }

    /// The comparisons during the rebuild, each at its seq.
    private struct Checks {
        var snapshots: [Int64]
        var projections: [(seq: Int64, projection: any VerifiableProjection)] = []
        var problems: [String] = []
        var verified: [String] = []

        init(snapshots: [Int64]) { self.snapshots = snapshots }

        mutating func add(_ projection: any VerifiableProjection, _ connection: LogConnection) throws {
            guard let seq = try projection.cursor(connection) else {
                problems.append("\(projection.name) has no cursor yet and is not verified.")
                return
            }
            projections.append((seq, projection))
        }

        mutating func reached(
            _ tree: PastTree, _ connection: LogConnection, _ record: NamespaceRecord,
            _ progress: (Progress) throws -> Void
        ) throws {
            if snapshots.first == tree.seq {
                snapshots.removeFirst()
                try progress(.comparing("the snapshot at seq \(tree.seq)"))
                var diff = RowDiff(DifferenceSink())
                var meter: TreeMeter?
                diff.compare(try connection.loadSnapshot(record.id, at: tree.seq, &meter), tree.root, changedAt: .root)
                if let first = diff.sink.first.first {
                    problems.append(
                        "The snapshot at seq \(tree.seq) differs from the log in \(diff.sink.count) rows, first at \(first.path)."
                    )
                }
            }
            while let index = projections.firstIndex(where: { $0.seq == tree.seq }) {
                let projection = projections.remove(at: index).projection
                try progress(.comparing(projection.name))
                let differences = try projection.compare(with: tree.root, at: tree.seq, connection)
                problems.append(contentsOf: differences.map { "\(projection.name): \($0)" })
                verified.append(projection.name)
            }
        }
    }

    private static func rebuild(
        _ tree: inout PastTree, _ connection: LogConnection, _ record: NamespaceRecord, _ checks: inout Checks,
        _ progress: @escaping (Progress) throws -> Void
    ) throws {
        try checks.reached(tree, connection, record, progress)
        var follower = LogFollower(record.id, at: LogPosition(seq: tree.seq)) {
            $0.pageEntries = tree.pageLimit
            $0.gaps = .reported
        }
        reading: while true {
            switch try follower.next(on: connection) {
            case .entries(let page):
                for logged in page {
                    try tree.apply(logged.entry)
                    try checks.reached(tree, connection, record, progress)
                }
                try progress(.entries(tree.entryCount))
            case .missing(let seqs, _):
                checks.problems.append("Seq \(seqs.lowerBound) is missing: the log continues with \(seqs.upperBound).")
            case .bulk, .rules, .rolledBack, .end: break reading
            }
        }
        if tree.seq != record.head {
            checks.problems.append("The head is \(record.head), but the log ends at \(tree.seq).")
        }
        for (seq, projection) in checks.projections {
            checks.problems.append("\(projection.name) is at seq \(seq), but the tree at that seq can't be rebuilt.")
        }
    }
}

private struct DifferenceSink: RowSink {
    var first: [Verification.Difference] = []
    var count = 0

    mutating func row(_ path: [UInt8], old: Node, new: Node) {
        count += 1
        guard first.count < Verification.maxDifferences else { return }
        first.append(.init(path: String(decoding: path, as: UTF8.self), logged: old, stored: new))
    }
}
