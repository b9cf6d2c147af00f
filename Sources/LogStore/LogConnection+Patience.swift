import Postgres
import Runtime

extension LogConnection {
    /// Statements of a large batch keep the server silently at work for longer than others: this much is allowed for each
    /// mebibyte of it, and for a thousand rows.
    private static let millisecondsPerMebibyte: Milliseconds = 500
    private static let millisecondsPerThousandRows: Milliseconds = 100
    /// What reading a tree, or a part of it, may take until the first row comes: it may have to be sorted.
    private static let readingMilliseconds: Milliseconds = 60_000

    /// Lets the connection wait for as long as this batch may take. Returns what it waited before, to be set again.
    func bePatient(with batch: Batch) -> Milliseconds {
        bePatient(withBytes: batch.records.reduce(0) { $0 + $1.changes.count }, rows: batch.rows.count)
    }

    func bePatient(withBytes bytes: Int, rows: Int = 0) -> Milliseconds {
        let usual = postgres.statementTimeoutMilliseconds
        guard usual > 0 else { return usual }
        postgres.statementTimeoutMilliseconds =
            usual + Milliseconds(bytes / (1 << 20)) * Self.millisecondsPerMebibyte
            + Milliseconds(rows / 1_000) * Self.millisecondsPerThousandRows
        return usual
    }

    /// Runs what reads much, and may keep the server silent until it begins to answer.
    func readingPatiently<Result>(_ body: () throws -> Result) rethrows -> Result {
        let usual = postgres.statementTimeoutMilliseconds
        if usual > 0 { postgres.statementTimeoutMilliseconds = max(usual, Self.readingMilliseconds) }
        defer { postgres.statementTimeoutMilliseconds = usual }
        return try body()
    }
}
