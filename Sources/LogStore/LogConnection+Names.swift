import Postgres
public import Tree

/// The names that clients give their writes.
extension LogConnection {
    private static let note = PostgresStatement(
        "note_writes", "select pathmirror.note_writes($1, $2, $3, $4, $5)",
        types: [.int8, .textArray, .textArray, .byteaArray, .int8])

    /// Returns the steps that record a batch's named writes as done in its transaction. They raise PM003 if one was
    /// done before.
    func nameSteps(_ batch: Batch) -> [PipelineStep] {
        guard !batch.names.isEmpty else { return [] }
        var texts: [String: String] = [:]
        // A multirange sorts and merges the ranges.
        for name in batch.names {
            let before = texts[name.writer].map { $0 + "," } ?? ""
            texts[name.writer] = "\(before)[\(name.number),\(name.number)]"
        }
        var writers = PostgresArray(of: .text)
        var numbers = PostgresArray(of: .text)
        var identities = PostgresArray(of: .bytea)
        for (writer, text) in texts {
            writers.appendText(writer)
            numbers.appendText("{\(text)}")
            if let identity = batch.writers[writer] {
                identities.appendBytea(identity.bytes)
            } else {
                identities.appendNull()
            }
        }
        var parameters = PostgresParameters()
        parameters.appendInt8(batch.namespace)
        parameters.append(writers)
        parameters.append(numbers)
        parameters.append(identities)
        parameters.appendInt8(batch.newHead)
        return [.prepared(Self.note, parameters)]
    }

    /// Returns the known writes of the writers in `names`.
    public func doneWrites(_ namespace: Int64, _ names: Set<WriteName>) throws(LogStoreError) -> DoneWrites {
        var writers = PostgresArray(of: .text)
        for writer in Set(names.map(\.writer)) { writers.appendText(writer) }
        var parameters = PostgresParameters()
        parameters.appendInt8(namespace)
        parameters.append(writers)
        let rows = try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                -- One look at the index for each, whatever the planner knows of the table.
                select wanted.writer, known.done::text, known.seq, known.identity
                from unnest($2::text[]) as wanted (writer)
                cross join lateral (
                    select done, seq, identity from pathmirror.named_write
                    where namespace_id = $1 and writer = wanted.writer limit 1
                ) as known
                """, parameters)
        }
        var done = DoneWrites()
        for row in 0..<rows.rowCount {
            let (writer, numbers, seq, identity) = try translated { () throws(PostgresError) in
                (
                    try rows.string(row, 0), try rows.string(row, 1), try rows.int64(row, 2),
                    rows.isNull(row, 3) ? nil : WriterIdentity(stored: try rows.bytes(row, 3))
                )
            }
            guard done.set(writer, multirange: numbers, seq: seq, identity) else {
                throw .corrupt("invalid numbers of writes: \(numbers)")
            }
        }
        return done
    }

    /// The maximum numbers of remembered writers. Beyond them, the least recently used writers are forgotten.
    public struct WriterBounds: Sendable {
        /// The limit of one namespace, and the limit of one user in a namespace.
        public var ofNamespace: Int64 = 100_000
        public var ofIdentity: Int64 = 1_000

        public init() {}
    }

    /// Acquires the lock for forgetting writers until this connection closes. Returns false if another connection holds
    /// it.
    public func takeForgettingTurn() throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            // "pmforget" as a number.
            try postgres.execute("select pg_try_advisory_lock(\(0x706D_666F_7267_6574 as Int64))").bool(0, 0)
        }
    }

    /// Forgets writers that have not written for `days`, at most `limit` of them; writers whose entries retention has
    /// removed, after a day; and writers beyond the bounds. Returns the number of forgotten writers.
    public func forgetWriters(
        unusedForDays days: Int64, bounds: WriterBounds = WriterBounds(), limit: Int64 = 100_000
    ) throws(LogStoreError) -> Int {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select pathmirror.forget_writers($1, $2, $3, $4)",
                [
                    .int4(Int32(clamping: days)), .int8(bounds.ofNamespace), .int8(bounds.ofIdentity), .int8(limit),
                ])
            return Int(try rows.int64(0, 0))
        }
    }
}
