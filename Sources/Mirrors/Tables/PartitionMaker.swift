import LogStore
import Postgres
import Runtime

/// Makes the partitions of a table. What can't be made now is no harm: its rows are in the default partition until it is made.
///
/// Of a table that others read each is made in a transaction of its own, behind the step that has written the first rows of it: nobody
/// can read the table while it is made. (A reader has chosen the partitions to look at when it waits for one of them: rows that go from
/// one to another meanwhile would be in neither.)
struct PartitionMaker {
    let connection: PostgresConnection

    /// Readers hold this up, and who comes behind waits for both.
    private static let lockMilliseconds = 200
    /// For how long a mirror stands still to make partitions between two steps.
    private static let longestNanoseconds: UInt64 = 1_000_000_000

    // MARK: Tables that nobody reads yet

    /// Makes partitions for rows of a table that is being made.
    func make(for periods: Set<PartitionPeriod>, in building: inout ActiveMirror) throws(MirrorError) {
        guard !periods.isEmpty else { return }
        building.partitions.want(periods)
        do throws(PostgresError) {
            if building.partitions.mustBeRead(at: 0) {
                let (days, most) = try read(building.table)
                building.partitions.take(days, upTo: most, at: Clock.monotonicNanoseconds)
            }
            for period in building.partitions.toBeMade {
                let refusal = try attempt { () throws(PostgresError) in try make(period, building.table) }
                building.partitions.add(period, isNew: refusal == nil)
            }
            building.partitions.wantNoMore()
        } catch {
            throw error.endsConnection ? MirrorError(error) : .table(mirror: building.name, error)
        }
    }

    // MARK: Tables that are read

    /// Makes partitions that rows were written for, outside of a transaction.
    func makeWanted(of mirror: inout ActiveMirror) throws(MirrorError) {
        let start = Clock.monotonicNanoseconds
        guard mirror.partitions.wantsSome(at: start) else { return }
        do throws(PostgresError) {
            if mirror.partitions.mustBeRead(at: start) {
                var found: (days: [Int?], most: Int)?
                let refusal = try attempt { () throws(PostgresError) in found = try read(mirror.table) }
                guard refusal == nil, let found else {
                    return mirror.partitions.rest(at: start, because: refusal.map { "\($0)" })
                }
                mirror.partitions.take(found.days, upTo: found.most, at: start)
            }
            let periods = mirror.partitions.toBeMade
            if periods.isEmpty { mirror.partitions.wantNoMore() }
            for period in periods {
                guard Clock.monotonicNanoseconds - start < Self.longestNanoseconds else { return }
                guard try make(period, at: start, &mirror) else { return }
            }
        } catch {
            throw MirrorError(error)
        }
    }

    /// False where it can't be made now.
    private func make(
        _ period: PartitionPeriod, at now: UInt64, _ mirror: inout ActiveMirror
    ) throws(PostgresError) -> Bool {
        let (table, namespace, id, generation) = (mirror.table, mirror.namespace, mirror.id, mirror.generation)
        var isStill = true
        let refusal = try attempt { () throws(PostgresError) in
            // Another table may be in its place.
            isStill = try MirrorCursors.lockedGeneration(connection, namespace, id) == generation
            if isStill { try make(period, table) }
        }
        // Somebody has made a partition that goes over a part of it.
        guard isStill, refusal == nil || refusal?.sqlState == "42P17" else {
            mirror.partitions.rest(at: now, because: refusal.map { "\($0)" })
            return false
        }
        mirror.partitions.add(period, isNew: refusal == nil)
        return true
    }

    /// Makes the default partition again where somebody has removed it: a row was refused that may have been for that one.
    func makeDefault(of table: MirrorTable) throws(MirrorError) {
        guard table.definition.partitioning != nil else { return }
        do throws(PostgresError) {
            guard try other(of: table) == nil else { return }
            _ = try attempt { () throws(PostgresError) in
                let name = try freeName("default", table)
                for sql in table.partitionSQL(name: name, "default") { try connection.executeScript(sql) }
                try Self.close(table.qualified(name), of: table.qualifiedName, connection)
            }
        } catch {
            throw error.endsConnection ? MirrorError(error) : .table(mirror: table.definition.name, error)
        }
    }

    // MARK: Parts

    private func make(_ period: PartitionPeriod, _ table: MirrorTable) throws(PostgresError) {
        let name = try freeName(period.suffix, table)
        let statements = table.partitionSQL(period, name: name, besides: try other(of: table))
        for sql in statements { try connection.executeScript(sql) }
        try Self.close(table.qualified(name), of: table.qualifiedName, connection)
    }

    /// The days with which partitions begin, and how many there may be.
    private func read(_ table: MirrorTable) throws(PostgresError) -> (days: [Int?], most: Int) {
        let found = try connection.execute(table.partitionDaysSQL, [.text(table.qualifiedName)])
        var days: [Int?] = []
        for row in 0..<found.rowCount {
            days.append(found.isNull(row, 0) ? nil : Int(try found.int64(row, 0)))
        }
        let server = try connection.execute(MirrorTable.roomSQL, [.text(table.qualifiedName)])
        // Rows that go to another partition would take along what refers to them.
        if try server.bool(0, 1) { return (days, 0) }
        return (days, table.mostPartitions(locks: Int(try server.int64(0, 0))))
    }

    private func other(of table: MirrorTable) throws(PostgresError) -> String? {
        let found = try connection.execute(MirrorTable.defaultPartitionSQL, [.text(table.qualifiedName)])
        return found.rowCount == 0 ? nil : try found.string(0, 0)
    }

    /// Does something in a transaction of its own or, where one is open, inside of that, and waits for no lock for long. Returns what
    /// the server refuses; nothing of it has happened then.
    private func attempt(_ body: () throws(PostgresError) -> Void) throws(PostgresError) -> PostgresError? {
        let isAlone = !connection.isInTransaction
        let settings = ["lock_timeout": "\(Self.lockMilliseconds)ms", "timezone": "UTC", "datestyle": "ISO, YMD"]
        try connection.executeScript(isAlone ? "begin" : "savepoint partition")
        do throws(PostgresError) {
            var before: [(name: String, value: String)] = []
            for (name, value) in settings {
                // They end with a transaction of its own; one that goes on has its own again.
                if !isAlone { before.append((name, try connection.execute("show \(name)").string(0, 0))) }
                _ = try connection.execute("select set_config($1, $2, true)", [.text(name), .text(value)])
            }
            try body()
            for (name, value) in before {
                _ = try connection.execute("select set_config($1, $2, true)", [.text(name), .text(value)])
            }
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

    /// Gives a partition to the table's owner, and takes the rights away that others were given with it: who reads it by its own name
    /// would pass by the policies of the table.
    static func close(
        _ partition: String, of table: String, _ connection: PostgresConnection
    ) throws(PostgresError) {
        let found = try connection.execute(
            """
            select format('alter table %s owner to %I', $1::text, pg_get_userbyid(parent.relowner))
            from pg_class as part, pg_class as parent
            where part.oid = to_regclass($1) and parent.oid = to_regclass($2) and part.relowner <> parent.relowner
            union all
            select distinct format('revoke all on %s from %s', $1::text,
                case when acl.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end)
            from pg_class, aclexplode(relacl) as acl where pg_class.oid = to_regclass($1) and acl.grantee <> relowner
            """, [.text(partition), .text(table)])
        for row in 0..<found.rowCount { try connection.executeScript(try found.string(row, 0)) }
    }
}
