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
        guard let most = mirror.definition.partitioning?.most, !periods.isEmpty else { return }
        let now = Clock.monotonicNanoseconds
        do throws(PostgresError) {
            if mirror.partitions.mustBeRead(at: now) {
                mirror.partitions.take(try days(of: mirror.table), at: now)
            }
            for period in mirror.partitions.missing(periods, at: now, upTo: most) {
                guard mirror.partitions.count < most else { return }
                guard try make(period, &mirror) else { return mirror.partitions.rest(at: now) }
            }
        } catch {
            throw error.endsConnection ? MirrorError(error) : .table(mirror: mirror.name, error)
        }
    }

    private func days(of table: MirrorTable) throws(PostgresError) -> [Int?] {
        let found = try connection.execute(table.partitionDaysSQL, [.text(table.qualifiedName)])
        var days: [Int?] = []
        for row in 0..<found.rowCount {
            days.append(found.isNull(row, 0) ? nil : Int(try found.int64(row, 0)))
        }
        return days
    }

    /// False where it can't be made now.
    private func make(_ period: PartitionPeriod, _ mirror: inout ActiveMirror) throws(PostgresError) -> Bool {
        let isAlone = !connection.isInTransaction
        let patience = try connection.execute("show lock_timeout").string(0, 0)
        try connection.executeScript(isAlone ? "begin" : "savepoint partition")
        do throws(PostgresError) {
            let name = try freeName(period, mirror.table)
            let found = try connection.execute(
                MirrorTable.defaultPartitionSQL, [.text(mirror.table.qualifiedName)])
            let other = found.rowCount == 0 ? nil : try found.string(0, 0)
            try connection.executeScript("set local lock_timeout = '\(Self.lockMilliseconds)ms'")
            for sql in mirror.table.partitionSQL(period, name: name, besides: other) {
                try connection.executeScript(sql)
            }
            try Self.close(mirror.table.qualified(name), connection)
            _ = try connection.execute("select set_config('lock_timeout', $1, true)", [.text(patience)])
            try connection.executeScript(isAlone ? "commit" : "release savepoint partition")
            mirror.partitions.add(period, isNew: true)
            return true
        } catch {
            guard !error.endsConnection else { throw error }
            try connection.executeScript(
                isAlone ? "rollback" : "rollback to savepoint partition; release savepoint partition")
            // Somebody has made a partition that goes over a part of it.
            guard error.sqlState == "42P17" else { return false }
            mirror.partitions.add(period, isNew: false)
            return true
        }
    }

    /// The name of a period's partition, or one like it where something else has that.
    private func freeName(_ period: PartitionPeriod, _ table: MirrorTable) throws(PostgresError) -> String {
        var name = table.partitionName(period.suffix)
        var number = 1
        while try connection.execute("select to_regclass($1) is not null", [.text(table.qualified(name))]).bool(0, 0) {
            name = table.partitionName("\(period.suffix)_\(number)")
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
