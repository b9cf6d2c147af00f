import Postgres
public import Tree

/// Rebuilds a namespace's tree from its log and compares it with the stored one.
public struct Verification: Sendable {
    public struct Difference: Sendable, Equatable {
        public let path: String
        /// What the log says; null for nothing.
        public let logged: Node
        /// What the tree's table says.
        public let stored: Node
    }

    public let head: Int64
    public let entryCount: Int64
    public let rowCount: Int
    /// What is wrong with the log itself, as sentences.
    public let problems: [String]
    /// The first differences; `differenceCount` counts all.
    public let differences: [Difference]
    public let differenceCount: Int

    public var isClean: Bool { problems.isEmpty && differenceCount == 0 }

    static let maxDifferences = 100

    /// Reads everything on one snapshot of the database; writers go on meanwhile.
    public static func run(
        _ session: LogSession, _ namespace: NamespaceRecord, progress: (Int64) -> Void = { _ in }
    ) throws -> Verification {
        try session.inReadTransaction {
            guard let record = try session.namespace(id: namespace.id) else {
                throw LogStoreError.unknownNamespace(namespace.name)
            }
            var problems: [String] = []
            if record.retainedFrom > 1 {
                problems.append(
                    "The log begins at seq \(record.retainedFrom): without its beginning the tree can't be rebuilt.")
            }
            let rebuilt = try rebuild(session, record, &problems, progress)
            var builder = TreeBuilder()
            try session.forEachNode(record.id) { path, value, isLong in
                if isLong {
                    builder.addUnordered(Path(splitting: String(decoding: path, as: UTF8.self)), value)
                } else {
                    builder.add(path, value)
                }
            }
            let stored = builder.finish()
            let rowsInTable = Int(
                try session.connection.execute(
                    "select count(*) from pathmirror.node where namespace_id = $1", [.int8(record.id)]
                ).int64(0, 0))
            if rowsInTable != stored.rowCount {
                problems.append("The tree's table has \(rowsInTable) rows, but they make a tree of \(stored.rowCount).")
            }
            var diff = RowDiff(DifferenceSink())
            diff.compare(rebuilt.root, stored, changedAt: .root)
            return Verification(
                head: record.head, entryCount: rebuilt.count, rowCount: rowsInTable, problems: problems,
                differences: diff.sink.first, differenceCount: diff.sink.count)
        }
    }

    private static func rebuild(
        _ session: LogSession, _ record: NamespaceRecord, _ problems: inout [String], _ progress: (Int64) -> Void
    ) throws -> (root: Node, count: Int64) {
        var root = Node.null
        var last = record.retainedFrom - 1
        var count: Int64 = 0
        while true {
            let page = try session.read(record.id, after: last, limit: 5_000)
            guard let first = page.first else { break }
            if first.entry.seq != last + 1 {
                problems.append("Seq \(last + 1) is missing: the log goes on with \(first.entry.seq).")
            }
            for logged in page {
                for change in logged.entry.changes { root = root.replacing(change.path, with: change.value) }
                if logged.entry.isBulk {
                    try session.forEachPart(record.id, of: logged.entry.seq) { (changes) throws(LogStoreError) in
                        for change in changes { root = root.replacing(change.path, with: change.value) }
                    }
                }
                last = logged.entry.seq
            }
            count += Int64(page.count)
            progress(last)
        }
        if last != record.head { problems.append("The head is \(record.head), but the log ends at \(last).") }
        return (root, count)
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
