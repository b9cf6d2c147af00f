public import Tree

/// Security rules as they were uploaded, and the entry from which on they hold.
public struct StoredRules: Sendable, Equatable {
    public let seq: Int64
    public let source: [UInt8]

    public init(seq: Int64, source: [UInt8]) {
        self.seq = seq
        self.source = source
    }
}

/// The writes that go into one SQL transaction.
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
