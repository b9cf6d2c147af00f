import Postgres

/// A table that is divided by time as SQL.
extension MirrorTable {
    /// What `create table` ends with.
    var partitionClause: String {
        guard let column = definition.partitioning?.column else { return "" }
        return " partition by range (\(quotedIdentifier(column)))"
    }

    /// Makes the partition that takes what no other one does.
    var defaultPartitionSQL: [String] {
        guard definition.partitioning != nil else { return [] }
        return ["create table \(qualified(partitionName("default"))) partition of \(qualifiedName) default"]
    }

    /// The table's name with the suffix; cut, with a hash that tells it from others, where that is too long for PostgreSQL.
    func partitionName(_ suffix: String) -> String {
        let whole = "\(name)_\(suffix)"
        guard whole.utf8.count > MirrorDefinition.maxNameBytes else { return whole }
        let left = MirrorDefinition.maxNameBytes - suffix.utf8.count - 18
        var short = ""
        for character in name where short.utf8.count + character.utf8.count <= left { short.append(character) }
        return "\(short)_\(Self.hash(name))_\(suffix)"
    }

    /// Where the value by which the table is divided is among `columns`.
    var partitionColumn: Int? {
        guard let column = definition.partitioning?.column else { return nil }
        return columns.firstIndex { $0.name == column }
    }

    /// The periods that rows have, as far as they may have partitions of their own.
    func periods(of rows: some Sequence<ProjectedRow>) -> Set<PartitionPeriod> {
        guard let partitioning = definition.partitioning, let column = partitionColumn else { return [] }
        return Set(rows.lazy.compactMap { partitioning.period(of: cell(column, of: $0)) })
    }

    /// The same of rows that are cells already, in the order of `columns`.
    func periods(of rows: some Sequence<[Cell]>) -> Set<PartitionPeriod> {
        guard let partitioning = definition.partitioning, let column = partitionColumn else { return [] }
        return Set(rows.lazy.filter { $0.indices.contains(column) }.compactMap { partitioning.period(of: $0[column]) })
    }

    /// The value by which a row has its partition, in that of `columns`.
    private func cell(_ column: Int, of row: ProjectedRow) -> Cell {
        let keys = definition.keys
        if column < keys.count { return CellEncoder.cell(row.keys[column], keys[column].type) }
        let cell = column - keys.count
        return row.cells.indices.contains(cell) ? row.cells[cell] : .null
    }

    func qualified(_ name: String) -> String { "\(quotedIdentifier(schema)).\(quotedIdentifier(name))" }

    private var isDividedByDays: Bool { partitionColumn.map { columns[$0].sqlType == "date" } ?? false }

    private func bound(_ day: Int) -> String {
        let day = CalendarDay(number: day).description
        return isDividedByDays ? "date '\(day)'" : "timestamptz '\(day) 00:00:00+00'"
    }

    /// Makes the partition of a period and puts into it what the default one has of that, whose qualified name is `other`. Nobody reads
    /// the table until the transaction ends.
    func partitionSQL(_ period: PartitionPeriod, name partition: String, besides other: String?) -> [String] {
        guard let column = definition.partitioning?.column else { return [] }
        let time = quotedIdentifier(column)
        let (first, next) = (bound(period.first), bound(period.next))
        let names = Self.list(columns.map(\.name))
        var statements = partitionSQL(name: partition, "for values from (\(first)) to (\(next))")
        if let other {
            statements.insert(
                """
                with moved as (delete from \(other) where \(time) >= \(first) and \(time) < \(next) returning \(names))
                insert into \(qualified(partition)) (\(names)) select \(names) from moved
                """, at: statements.count - 1)
        }
        return statements
    }

    /// Makes a partition for all that no other one takes, or for other bounds in SQL.
    func partitionSQL(name partition: String, _ bounds: String) -> [String] {
        let partition = qualified(partition)
        return [
            "lock table only \(qualifiedName) in access exclusive mode",
            "create table \(partition) (like \(qualifiedName) including all excluding indexes)",
            "alter table \(qualifiedName) attach partition \(partition) \(bounds)",
        ]
    }

    /// Asks for how many locks the server has room, and whether a foreign key refers to the table.
    static let roomSQL = """
        select current_setting('max_locks_per_transaction')::bigint
                * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint),
            exists (select from pg_constraint where contype = 'f' and confrelid = to_regclass($1))
        """

    /// The most partitions that there may be: a transaction that drops the table, or puts another one in its place, locks all of them
    /// with their indexes. Half of the server's room stays for others.
    ///
    /// - Parameter locks: for how many the server has room.
    func mostPartitions(locks: Int) -> Int {
        guard let most = definition.partitioning?.most else { return 0 }
        // The partition, its key, its long values and their index.
        let each = 4 + indexNames(of: name).count - 1
        return min(most, max(1, locks / (4 * each)))
    }

    /// Asks for the qualified name of the default partition.
    static let defaultPartitionSQL = """
        select format('%I.%I', nspname, relname)
        from pg_partitioned_table join pg_class on pg_class.oid = partdefid join pg_namespace on pg_namespace.oid = relnamespace
        where partrelid = to_regclass($1)
        """

    /// Asks for the days with which its partitions begin, in a session that writes times by ISO 8601 in UTC; null for one that begins
    /// otherwise.
    var partitionDaysSQL: String {
        let type = isDividedByDays ? "date" : "timestamptz"
        let day =
            isDividedByDays
            ? "start - date '1970-01-01'" : "floor(extract(epoch from start) / 86400)::bigint"
        return """
            select case when isfinite(start) then (\(day))::bigint end
            from (
                select substring(pg_get_expr(class.relpartbound, class.oid) from $$^FOR VALUES FROM \\('([^']*)'\\)$$)::\(type) as start
                from pg_inherits join pg_class as class on class.oid = inhrelid
                where inhparent = to_regclass($1) and pg_get_expr(class.relpartbound, class.oid) <> 'DEFAULT'
            ) as part
            """
    }

    /// A query for the table named by $1 and its partitions.
    static let partsSQL = """
        select to_regclass($1)::oid as oid union select relid::oid from pg_partition_tree(to_regclass($1))
        """

    /// A query for about how many rows the table named by $1 has: -1 where PostgreSQL doesn't know.
    static let estimateSQL = """
        select case
                when bool_or(reltuples < 0 and pg_relation_size(class.oid) > 0) then -1
                when max(reltuples) < 0 then -1
                else sum(greatest(reltuples, 0))
            end::bigint
        from (\(partsSQL)) as part join pg_class as class on class.oid = part.oid where class.relkind = 'r'
        """
}
