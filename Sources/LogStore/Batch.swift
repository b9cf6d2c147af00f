public import Tree

/// The writes that go into one SQL transaction.
///
///     batch                                  transaction of `LogConnection.commit`
///     -------------------------------------  ------------------------------------------------------------------
///     expectedHead = S, expectedBatch, id    namespace: moves the head from S to S + n, sets last_batch = id
///     records (n of them)                    log: rows S + 1 to S + n, each with batch_id = id
///     names, writers                         named_write: notes the names as done
///     rows                                   node: one upsert or delete per path
///     rules                                  rule: one row per upload
///     claims                                 session: deletes the rows whose operations are executed
///
/// The move of the head takes the lock of the namespace's row, which the transaction holds until it commits. So the batches
/// of all gateways form one sequence per namespace. A transaction that fails writes nothing. Three failures have outcomes
/// of their own: the head is not S, or the entry there is of another batch than `expectedBatch` (`headMoved`); another
/// gateway has executed or changed a claimed session's operations (`alreadyClaimed`); a named write was done before
/// (`alreadyDone`).
///
/// The id is the answer to a lost connection: `findBatch` looks for it in the log at S + 1.
public struct Batch: Sendable {
    /// One write's row of the log.
    public struct Record: Sendable {
        public let operation: Tree.Operation
        public let path: Path
        /// `ChangeCodec`'s text.
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
    /// The head that the writes were evaluated at.
    public let expectedHead: Int64
    /// The batch of the entry at that head: with another one there, the head is not the expected one. nil where it is not
    /// known; then only the number is compared.
    public let expectedBatch: [UInt8]?
    /// 16 bytes, different for every batch that was ever made.
    public let id: [UInt8]
    public let records: [Record]
    public let rows: RowChanges
    /// Security rules among the records, with their seqs.
    public let rules: [StoredRules]
    /// Sessions whose onDisconnect operations are among the records: their rows go with this batch, or the batch doesn't.
    public let claims: [SessionClaim]
    /// The names of its writes, as far as they have some: none of them may have been done before.
    public let names: Set<WriteName>
    /// Whose the names' writers are.
    public let writers: [String: WriterIdentity]

    public init(
        namespace: Int64, expectedHead: Int64, expectedBatch: [UInt8]? = nil, id: [UInt8], records: [Record],
        rows: RowChanges, rules: [StoredRules] = [], claims: [SessionClaim] = [], names: Set<WriteName> = [],
        writers: [String: WriterIdentity] = [:]
    ) {
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

    /// A new id: random bytes.
    public static func makeID() -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return withUnsafeBytes(of: (generator.next() as UInt64, generator.next() as UInt64)) { Array($0) }
    }

    /// The head after this batch.
    public var newHead: Int64 { expectedHead + Int64(records.count) }
}

/// The rows of the tree that a batch writes and removes: at most one change a row, whatever the batch's writes did to it
/// in between.
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

    /// How many bytes the texts of leaves have more than those that were in their places, of all writes together, and the paths of
    /// rows that were not there, whose keys take room as well. Nothing is taken off for what went without another leaf in its
    /// place, and keys that paths share count for each.
    public private(set) var textGrowth = 0

    public var count: Int { rows.count }
    public var isEmpty: Bool { rows.isEmpty }

    /// Takes one row that a difference of two trees found; a later change of the same row replaces an earlier one.
    public mutating func row(_ path: [UInt8], old: Node, new: Node) {
        // A leaf that went as there are places below it now is found once for each of them.
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

    /// Forgets all rows, and keeps the memory for the next batch.
    public mutating func removeAll() {
        rows.removeAll(keepingCapacity: true)
        textGrowth = 0
    }
}
