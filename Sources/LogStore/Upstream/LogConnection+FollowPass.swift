import Postgres

/// The right of a batch to write to a namespace that follows an upstream.
extension LogConnection {
    private enum SQL {
        static let messages = PostgresStatement(
            "follow_batch", "select pathmirror.follow_batch($1, $2, $3, $4, $5)",
            types: [.int8, .uuid, .int8, .int8, .uuid])
        static let rules = PostgresStatement(
            "follow_rules", "select pathmirror.follow_rules($1, $2)", types: [.int8, .uuid])
    }

    /// Returns the steps that obtain the batch's right, for the beginning of its transaction. They raise PM006 and PM007.
    func followSteps(_ batch: Batch) -> [PipelineStep] {
        guard let follow = batch.follow else { return [] }
        var steps: [PipelineStep] = []
        if let messages = follow.messages {
            steps.append(
                .prepared(
                    SQL.messages,
                    [
                        .int8(batch.namespace), .uuid(messages.fence), .int8(messages.after), .int8(messages.upto),
                        .uuid(batch.id),
                    ]))
        }
        if follow.hasOwnRules { steps.append(.prepared(SQL.rules, [.int8(batch.namespace), .uuid(batch.id)])) }
        return steps
    }

    /// Returns the number of steps that `followSteps` returns.
    static func followStepCount(_ batch: Batch) -> Int {
        guard let follow = batch.follow else { return 0 }
        return (follow.messages == nil ? 0 : 1) + (follow.hasOwnRules ? 1 : 0)
    }
}

extension Following {
    /// An SQL expression on a namespace's row for the raw value.
    static let column = """
        case when namespace.is_following then coalesce((
            select 1 + follow.keep_rules::integer from pathmirror.follow where follow.namespace_id = namespace.id), 1)
        else 0 end
        """

    init(_ rows: PostgresResult, _ row: Int, _ column: Int) throws(PostgresError) {
        self = Following(rawValue: UInt8(truncatingIfNeeded: try rows.int32(row, column))) ?? .upstream
    }
}

extension LogConnection {
    /// Returns what a namespace follows; `nothing` if it does not exist.
    public func following(_ namespace: Int64) throws(LogStoreError) -> Following {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select \(Following.column) from pathmirror.namespace where id = $1", [.int8(namespace)])
            return rows.rowCount == 1 ? try Following(rows, 0, 0) : .nothing
        }
    }
}
