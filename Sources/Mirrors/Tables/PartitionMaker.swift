import LogStore
import Postgres
import Runtime

/// Makes the partitions that rows need before they come. What can't be made now is no harm: its rows are in the default partition
/// until it is made.
struct PartitionMaker {
    let connection: PostgresConnection

    /// A reader of the default partition holds this up, and who comes behind waits for both.
    private static let lockMilliseconds = 200

    /// Makes partitions for rows.
    func make(for rows: some Sequence<ProjectedRow>, in mirror: inout ActiveMirror) throws(MirrorError) {
        guard let partitioning = mirror.definition.partitioning else { return }
        var periods: Set<PartitionPeriod> = []
        for row in rows {
            if let period = mirror.table.partitionCell(of: row).flatMap(partitioning.period(of:)) {
                periods.insert(period)
            }
        }
        try make(periods, &mirror)
    }

    /// Makes partitions for rows that are cells already, in the order of the table's columns.
    func make(for rows: some Sequence<[Cell]>, in mirror: inout ActiveMirror) throws(MirrorError) {
        guard let partitioning = mirror.definition.partitioning, let column = mirror.table.partitionColumn else {
            return
        }
        var periods: Set<PartitionPeriod> = []
        for row in rows where row.indices.contains(column) {
            if let period = partitioning.period(of: row[column]) { periods.insert(period) }
        }
        try make(periods, &mirror)
    }

    private func make(_ periods: Set<PartitionPeriod>, _ mirror: inout ActiveMirror) throws(MirrorError) {
        let now = Clock.monotonicNanoseconds
        do throws(PostgresError) {
            // With care: the default partition may be what was missing.
            if mirror.isCareful || mirror.partitions.mustBeRead(at: now) { try read(&mirror, now) }
            let isBuild = mirror.table.name != mirror.definition.table
            for period in mirror.partitions.toBeMade(for: periods, at: now, in: isBuild ? nil : mirror.seq) {
                guard try make(period, &mirror) else { return mirror.partitions.rest(at: now) }
            }
        } catch {
            throw error.endsConnection ? MirrorError(error) : .table(mirror: mirror.name, error)
        }
    }

    /// Reads which partitions there are, and makes the default one where somebody has removed that.
    private func read(_ mirror: inout ActiveMirror, _ now: UInt64) throws(PostgresError) {
        let table = mirror.table
        let found = try connection.execute(table.partitionDaysSQL, [.text(table.qualifiedName)])
        var days: [Int?] = []
        for row in 0..<found.rowCount {
            days.append(found.isNull(row, 0) ? nil : Int(try found.int64(row, 0)))
        }
        let locks = try connection.execute(MirrorTable.lockTableSQL).int64(0, 0)
        mirror.partitions.take(days, upTo: table.mostPartitions(locks: Int(locks)), at: now)
        let other = try connection.execute(MirrorTable.defaultPartitionSQL, [.text(table.qualifiedName)])
        guard other.rowCount == 0 else { return }
        _ = try attempt { () throws(PostgresError) in
            let name = try freeName("default", table)
            for sql in table.partitionSQL(name: name, "default") { try connection.executeScript(sql) }
            try Self.close(table.qualified(name), connection)
        }
    }

    /// False where it can't be made now.
    private func make(_ period: PartitionPeriod, _ mirror: inout ActiveMirror) throws(PostgresError) -> Bool {
        let table = mirror.table
        let refusal = try attempt { () throws(PostgresError) in
            let name = try freeName(period.suffix, table)
            let found = try connection.execute(MirrorTable.defaultPartitionSQL, [.text(table.qualifiedName)])
            let other = found.rowCount == 0 ? nil : try found.string(0, 0)
            for sql in table.partitionSQL(period, name: name, besides: other) { try connection.executeScript(sql) }
            try Self.close(table.qualified(name), connection)
        }
        // Somebody has made a partition that goes over a part of it.
        guard refusal == nil || refusal?.sqlState == "42P17" else { return false }
        mirror.partitions.add(period, isNew: refusal == nil)
        return true
    }

    /// Does something in a transaction of its own or, where one is open, inside of that, and waits for no lock for long. Returns what
    /// the server refuses; nothing of it has happened then.
    private func attempt(_ body: () throws(PostgresError) -> Void) throws(PostgresError) -> PostgresError? {
        let isAlone = !connection.isInTransaction
        let patience = try connection.execute("show lock_timeout").string(0, 0)
        try connection.executeScript(isAlone ? "begin" : "savepoint partition")
        do throws(PostgresError) {
            try connection.executeScript("set local lock_timeout = '\(Self.lockMilliseconds)ms'")
            try body()
            _ = try connection.execute("select set_config('lock_timeout', $1, true)", [.text(patience)])
            try connection.executeScript(isAlone ? "commit" : "release savepoint partition")
            return nil
        } catch {
            guard !error.endsConnection else { throw error }
            try connection.executeScript(
                isAlone ? "rollback" : "rollback to savepoint partition; release savepoint partition")
            return error
        }
    }

    /// The name of a partition, or one like it where something else has that.
    private func freeName(_ suffix: String, _ table: MirrorTable) throws(PostgresError) -> String {
        var name = table.partitionName(suffix)
        var number = 1
        while try connection.execute("select to_regclass($1) is not null", [.text(table.qualified(name))]).bool(0, 0) {
            name = table.partitionName("\(suffix)_\(number)")
            number += 1
        }
        return name
    }

    /// Takes the rights on a partition away that others were given with it: who reads it by its own name would pass by the
    /// policies of the table.
    static func close(_ partition: String, _ connection: PostgresConnection) throws(PostgresError) {
        let found = try connection.execute(
            """
            select distinct format('revoke all on %s from %s', $1::text,
                case when acl.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end)
            from pg_class, aclexplode(relacl) as acl where pg_class.oid = to_regclass($1) and acl.grantee <> relowner
            """, [.text(partition)])
        for row in 0..<found.rowCount { try connection.executeScript(try found.string(row, 0)) }
    }
}
