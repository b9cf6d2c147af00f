import Postgres
public import Tree

/// The names that clients give their writes.
extension LogConnection {
    private static let note = PostgresStatement(
        "note_writes", "select pathmirror.note_writes($1, $2, $3, $4)", types: [.int8, .textArray, .textArray, .int8])

    /// Notes a batch's named writes as done, as part of its transaction. Raises PM003 where one was done before.
    func nameSteps(_ batch: Batch) -> [PipelineStep] {
        guard !batch.names.isEmpty else { return [] }
        var texts: [String: String] = [:]
        // A multirange puts them into order and together by itself.
        for name in batch.names {
            let before = texts[name.writer].map { $0 + "," } ?? ""
            texts[name.writer] = "\(before)[\(name.number),\(name.number)]"
        }
        var writers = PostgresArray(of: .text)
        var numbers = PostgresArray(of: .text)
        for (writer, text) in texts {
            writers.appendText(writer)
            numbers.appendText("{\(text)}")
        }
        var parameters = PostgresParameters()
        parameters.appendInt8(batch.namespace)
        parameters.append(writers)
        parameters.append(numbers)
        parameters.appendInt8(batch.newHead)
        return [.prepared(Self.note, parameters)]
    }

    /// What is known of the writers of these names.
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
                select wanted.writer, known.done::text, known.seq
                from unnest($2::text[]) as wanted (writer)
                cross join lateral (
                    select done, seq from pathmirror.named_write
                    where namespace_id = $1 and writer = wanted.writer limit 1
                ) as known
                """, parameters)
        }
        var done = DoneWrites()
        for row in 0..<rows.rowCount {
            let (writer, numbers, seq) = try translated { () throws(PostgresError) in
                (try rows.string(row, 0), try rows.string(row, 1), try rows.int64(row, 2))
            }
            guard done.set(writer, multirange: numbers, seq: seq) else {
                throw .corrupt("numbers of writes: \(numbers)")
            }
        }
        return done
    }

    /// Forgets writers that have not written for so many days, some at a time.
    public func forgetWriters(unusedForDays days: Int64, limit: Int64 = 100_000) throws(LogStoreError) -> Int {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                delete from pathmirror.named_write where (namespace_id, writer) in (
                    select namespace_id, writer from pathmirror.named_write
                    where used_on < current_date - $1::bigint::int order by used_on limit $2
                )
                -- One that writes just now stays.
                and used_on < current_date - $1::bigint::int
                """, [.int8(days), .int8(limit)]
            ).affectedRows
        }
    }
}
