public import Tree

/// The writes of one SQL transaction.
///
///     batch                                  transaction of `LogConnection.commit`
///     -------------------------------------  ------------------------------------------------------------------
///     follow                                 follow: moves the position of the upstream messages, sets batch = id
///     expectedHead = S, expectedBatch, id    namespace: moves the head from S to S + n, sets last_batch = id
///     records (n of them)                    log: rows S + 1 to S + n, each with batch_id = id
///     names, writers                         named_write: records the names as done
///     rows                                   node: one upsert or delete per path
///     rules                                  rule: one row per upload
///     claims                                 session: deletes the rows whose operations are executed
///
/// Moving the head locks the namespace's row until the transaction commits. The batches of all gateways therefore form
/// one sequence per namespace. A transaction that fails writes nothing.
/// Five failures have outcomes of their own: the head is not S, or the entry at S belongs to a batch other than
/// `expectedBatch` (`headMoved`); another gateway has executed or changed a claimed session's operations
/// (`alreadyClaimed`); a named write was done before (`alreadyDone`); the namespace follows an upstream, and the batch
/// has no right to write to it (`following`) or does not continue the committed messages (`superseded`).
///
/// If the connection is lost during the commit, `findBatch` looks for the id in the log at S + 1.
public struct Batch: Sendable {
    /// The log row of one write.
    public struct Record: Sendable {
        public let operation: Tree.Operation
        public let path: Path
        /// The changes as text, written by `ChangeCodec`.
        public let changes: [UInt8]
        public let origin: Origin?

        public init(operation: Tree.Operation, path: Path, changes: [UInt8], origin: Origin? = nil) {
            self.operation = operation
            self.path = path
            self.changes = changes
            self.origin = origin
        }
    }

    public let namespace: Int64
    /// The head at which the writes were evaluated.
    public let expectedHead: Int64
    /// The batch of the entry at `expectedHead`. If that entry belongs to another batch, the commit fails with
    /// `headMoved`. Nil if unknown: the commit then compares only the number.
    public let expectedBatch: [UInt8]?
    /// 16 bytes, unique to this batch.
    public let id: [UInt8]
    public let records: [Record]
    public let rows: RowChanges
    /// Security rules among the records, with their seqs.
    public let rules: [StoredRules]
    /// Sessions whose onDisconnect operations are among the records. The transaction deletes their rows, or fails.
    public let claims: [SessionClaim]
    /// The names of the named writes in the batch. The transaction fails if one of them was done before.
    public let names: Set<WriteName>
    /// The identities of the writers in `names`, by writer.
    public let writers: [String: WriterIdentity]
    /// The right to write to a namespace that follows an upstream; nil for batches of other namespaces.
    public let follow: FollowPass?

    public init(
        namespace: Int64, expectedHead: Int64, expectedBatch: [UInt8]? = nil, id: [UInt8], records: [Record],
        rows: RowChanges, rules: [StoredRules] = [], claims: [SessionClaim] = [], names: Set<WriteName> = [],
        writers: [String: WriterIdentity] = [:], follow: FollowPass? = nil
    ) {
        self.follow = follow
        self.names = names
        self.writers = writers
        self.rules = rules
        self.claims = claims
        self.namespace = namespace
        self.expectedHead = expectedHead
        self.expectedBatch = expectedBatch
        self.id = id
        self.records = records
        self.rows = rows
    }

    /// Returns a new id of random bytes.
    public static func makeID() -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return withUnsafeBytes(of: (generator.next() as UInt64, generator.next() as UInt64)) { Array($0) }
    }

    /// The head after this batch.
    public var newHead: Int64 { expectedHead + Int64(records.count) }
}

/// The rows of the tree that a batch writes and removes. Each row has at most one change, however many writes of the
/// batch touched it.
public struct RowChanges: RowSink, Sendable {
    struct Row: Sendable {
        /// Whether the row existed before the batch.
        let existed: Bool
        var value: Node
        var version: Int64
    }
    private(set) var rows: [[UInt8]: Row] = [:]
    /// The seq of the write whose rows come next.
    public var seq: Int64 = 0

    public init() {}

    /// The number of bytes by which the writes enlarged the texts of leaves, plus the paths of new rows, whose keys
    /// take memory as well. Removed leaves are not subtracted unless another leaf replaced them, and keys that several
    /// paths share count for each path.
    public private(set) var textGrowth = 0

    public var count: Int { rows.count }
    public var isEmpty: Bool { rows.isEmpty }

    /// Adds the change of one row, as found by comparing two trees. A later change of the row replaces an earlier one.
    public mutating func row(_ path: [UInt8], old: Node, new: Node) {
        // A leaf that was replaced by children is reported once for each of them.
        if !new.isNull { textGrowth += Self.textBytes(new) + (old.isNull ? path.count : -Self.textBytes(old)) }
        Self.merge(into: &rows[path], old: old, new: new, seq: seq)
    }

    private static func textBytes(_ leaf: Node) -> Int {
        if case .string(let text) = leaf { text.utf8.count } else { 0 }
    }

    private static func merge(into row: inout Row?, old: Node, new: Node, seq: Int64) {
        let existed = row?.existed ?? !old.isNull
        row = new.isNull && !existed ? nil : Row(existed: existed, value: new, version: seq)
    }

    /// Removes all rows, and keeps the memory for the next batch.
    public mutating func removeAll() {
        rows.removeAll(keepingCapacity: true)
        textGrowth = 0
    }
}
