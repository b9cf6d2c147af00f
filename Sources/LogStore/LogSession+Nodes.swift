import Postgres
public import Tree

extension LogSession {
    /// The tree and the head that it belongs to, in one consistent read.
    public func loadTree(_ namespace: Int64) throws(LogStoreError) -> (head: Int64, root: Node) {
        do {
            return try inReadTransaction {
                let head = try connection.execute(
                    "select head from pathmirror.namespace where id = $1", [.int8(namespace)]
                ).int64(0, 0)
                var builder = TreeBuilder()
                try forEachNode(namespace) { path, value, isLong in
                    if isLong {
                        builder.addUnordered(Path(splitting: String(decoding: path, as: UTF8.self)), value)
                    } else {
                        builder.add(path, value)
                    }
                }
                return (head, builder.finish())
            }
        } catch {
            throw LogStoreError(error)
        }
    }

    /// Runs `body` on one snapshot of the database.
    public func inReadTransaction<Result>(_ body: () throws -> Result) throws -> Result {
        try connection.executeScript("begin isolation level repeatable read read only")
        do {
            let result = try body()
            try connection.executeScript("commit")
            return result
        } catch {
            if connection.isOpen { try? connection.executeScript("rollback") }
            throw error
        }
    }

    /// Streams all stored rows of a namespace in the order of their path's bytes; long paths (see `StoredPath`) come out
    /// of order, and are marked. The path's bytes are valid during the call only.
    public func forEachNode(
        _ namespace: Int64, _ body: (_ path: UnsafeRawBufferPointer, _ value: Node, _ isLong: Bool) throws -> Void
    ) throws {
        // COPY takes no parameters; the namespace is a number.
        let sql = """
            copy (select path, rest, value from pathmirror.node where namespace_id = \(namespace) order by path)
            to stdout (format binary)
            """
        try connection.copyOutRows(sql) { row in
            let value = try row.withBytes(2) { try JSONParser.parse($0) } ?? .null
            if row.isNull(1) {
                try row.withBytes(0) { try body($0, value, false) }
                return
            }
            let path = StoredPath.joined(try row.bytes(0), rest: try row.bytes(1))
            try path.withUnsafeBytes { try body($0, value, true) }
        }
    }
}
