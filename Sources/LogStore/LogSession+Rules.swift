import Postgres

extension LogSession {
    /// The rules that hold at the head, or nil when none were ever uploaded.
    public func currentRules(_ namespace: Int64) throws(LogStoreError) -> StoredRules? {
        try rules(namespace, "order by seq desc limit 1", []).first
    }

    /// The rules that an entry brought.
    public func rules(_ namespace: Int64, at seq: Int64) throws(LogStoreError) -> StoredRules? {
        try rules(namespace, "and seq = $2", [.int8(seq)]).first
    }

    /// All rules that the namespace has had, oldest first.
    public func rulesHistory(_ namespace: Int64) throws(LogStoreError) -> [StoredRules] {
        try rules(namespace, "order by seq", [])
    }

    private func rules(
        _ namespace: Int64, _ condition: String, _ more: [PostgresValue]
    ) throws(LogStoreError) -> [StoredRules] {
        try translated { () throws(PostgresError) in
            var parameters: PostgresParameters = [.int8(namespace)]
            for value in more { parameters.append(value) }
            let rows = try connection.execute(
                "select seq, source from pathmirror.rule where namespace_id = $1 \(condition)", parameters)
            var found: [StoredRules] = []
            for row in 0..<rows.rowCount {
                found.append(StoredRules(seq: try rows.int64(row, 0), source: try rows.bytes(row, 1)))
            }
            return found
        }
    }
}
