import Postgres

/// What is needed to tell whether PostgreSQL's clock may decide which entries are old. All in microseconds since 1970.
struct ClockReading: Equatable {
    let database: Int64
    let machine: Int64
    /// When the newest entry was committed, by PostgreSQL's clock then; nil where the log is empty.
    let newestEntry: Int64?

    /// Clocks further apart than this are not a matter of the network.
    static let mostApart: Int64 = 5 * 60 * 1_000_000

    /// Throws where what the clock says is not to be trusted: too much of the log, or too little, would go.
    func check() throws(ReplayError) {
        if let newestEntry, database < newestEntry {
            throw .clockBehindLog(seconds: (newestEntry - database) / 1_000_000)
        }
        let ahead = database - machine
        if ahead.magnitude > UInt64(Self.mostApart) { throw .clocksDiffer(aheadSeconds: ahead / 1_000_000) }
    }
}

extension LogConnection {
    func clockReading(
        _ namespace: NamespaceRecord, _ machineClock: () -> Int64
    ) throws -> ClockReading {
        // The entry first: what is read then was committed before the clock is looked at.
        let newest = try postgres.execute(
            """
            select (extract(epoch from committed_at) * 1000000)::bigint from pathmirror.log
            where namespace_id = $1 and seq = $2
            """, [.int8(namespace.id), .int8(namespace.head)])
        let database = try postgres.execute(
            "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
        ).int64(0, 0)
        return ClockReading(
            database: database, machine: machineClock() * 1_000,
            newestEntry: newest.rowCount == 1 ? try newest.int64(0, 0) : nil)
    }
}
