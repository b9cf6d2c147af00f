import Postgres
public import Tree

extension LogConnection {
    /// About how many rows the tree has at and below a path, as PostgreSQL's statistics say; nil where it has none yet.
    ///
    /// For telling how far something is: counting takes seconds where there are many.
    public func estimatedRows(_ namespace: Int64, below path: Path) throws -> Int64? {
        let known = try postgres.execute(
            """
            select exists (select from pg_stats where schemaname = 'pathmirror' and tablename = 'node' and attname = 'namespace_id')
            """)
        guard try known.bool(0, 0) else { return nil }
        let text = path.isRoot ? "" : path.description
        let plan = try postgres.execute(
            """
            explain (format json) select from pathmirror.node
            where namespace_id = $1 and path >= $2 and path < $3
            """, [.int8(namespace), .text(path.isRoot ? "" : text), .text("\(text)0")])
        // The only number of rows in a plan of one scan.
        let words = try plan.string(0, 0).split(separator: "\"Plan Rows\": ", maxSplits: 1)
        return words.count == 2 ? Int64(words[1].prefix { $0.isNumber }) : nil
    }
}
