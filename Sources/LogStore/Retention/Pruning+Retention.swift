import Postgres

extension Pruning {
    /// The oldest entry that a policy keeps: what is before it may go.
    ///
    /// - Throws: `ReplayError` where PostgreSQL's clock is not to be trusted, and entries go by their age.
    public func wantedFrom(_ policy: RetentionPolicy) throws -> Int64 {
        guard let record = try connection.namespace(id: namespace) else {
            throw LogStoreError.unknownNamespace("\(namespace)")
        }
        var wanted = record.retainedFrom
        if let keeping = policy.keeping { wanted = max(wanted, try firstKept(keeping, record, false)) }
        if let bytes = policy.maxBytes { wanted = max(wanted, try firstWithin(bytes)) }
        return wanted
    }

    /// The first entry of the newest partitions that have that many bytes together. Whole partitions count, and the tables that
    /// namespaces share don't.
    private func firstWithin(_ bytes: Int64) throws -> Int64 {
        let rows = try connection.postgres.execute(
            """
            select coalesce(max(first), 0) from (
                select first, sum(size) over (order by first desc) as size from (
                    select split_part(relname, '_', 3)::bigint as first, pg_total_relation_size(oid) as size from pg_class
                    where relnamespace = 'pathmirror'::regnamespace and relkind = 'r'
                        and relname ~ ('^log_' || $1::text || '_[0-9]+$')
                ) as mine
            ) as newest where size >= $2
            """, [.int8(namespace), .int8(bytes)])
        return try rows.int64(0, 0)
    }
}
