import Postgres
public import Tree

/// Writes the tree at and below a path as one JSON text in export form, from one snapshot and in bounded memory.
public final class Exporter {
    private let connection: LogConnection
    private let namespace: NamespaceRecord
    private let path: Path
    /// The number of bytes of `path` at the beginning of each row's path.
    private let pathBytes: Int
    private let send: ([UInt8]) throws -> Void
    private var text = ExportText()
    private var order: BranchOrder
    /// The path, relative to `path`, of the last row written.
    private var last: [UInt8] = []
    public private(set) var rowCount = 0
    /// The seq of the exported tree.
    public private(set) var seq: Int64 = 0

    private static let flushBytes = 256 * 1024
    /// Makes PostgreSQL return rows in primary key order immediately, even without statistics of the table.
    private static let streaming = "; set local enable_sort = off; set local enable_bitmapscan = off"

    /// - Parameter send: receives the text in pieces.
    public convenience init(
        _ connection: LogConnection, _ namespace: NamespaceRecord, at path: Path,
        send: @escaping ([UInt8]) throws -> Void
    ) {
        self.init(connection, namespace, at: path, order: BranchOrder(), send: send)
    }

    init(
        _ connection: LogConnection, _ namespace: NamespaceRecord, at path: Path, order: BranchOrder,
        send: @escaping ([UInt8]) throws -> Void
    ) {
        self.connection = connection
        self.namespace = namespace
        self.path = path
        pathBytes = path.isRoot ? 0 : path.description.utf8.count
        self.order = order
        self.send = send
    }

    /// Runs the export. Calls `progress` with the number of rows at intervals.
    public func run(progress: (Int) -> Void = { _ in }) throws {
        try connection.inReadTransaction(Self.streaming) {
            seq = try connection.postgres.execute(
                "select head from pathmirror.namespace where id = $1", [.int8(namespace.id)]
            ).int64(0, 0)
            if try !readInOrderOfBytes(progress) { try readSorted(progress) }
        }
        text.finish()
        try text.take(send)
        progress(rowCount)
    }

    /// Returns false if PostgreSQL must sort the rows from `last` on, because too many would have to be held here, or
    /// long paths come out of order.
    private func readInOrderOfBytes(_ progress: (Int) -> Void) throws -> Bool {
        struct LongPath: Error {}
        guard pathBytes < StoredPath.maxPlainBytes else { return false }
        try connection.postgres.executeScript("savepoint export")
        do {
            try connection.forEachStoredRow(namespace.id, atAndBelow: path) { path, value, isLong in
                if isLong { throw LongPath() }
                try order.add(UnsafeRawBufferPointer(rebasing: path[pathBytes...]), value) { path, value in
                    try write(path, value, progress)
                }
            }
            try order.drain { path, value in try write(path, value, progress) }
            return true
        } catch {
            guard error is LongPath || error is BranchOrder.TooMany else { throw error }
            order.forget()
            try connection.postgres.executeScript("rollback to savepoint export; set local enable_sort = on")
            return false
        }
    }

    private func readSorted(_ progress: (Int) -> Void) throws {
        let after = rowCount > 0 ? (path.isRoot ? [] : Array(path.description.utf8)) + last : nil
        try connection.forEachNode(namespace.id, atAndBelow: path, after: after) { path, value in
            try write(UnsafeRawBufferPointer(rebasing: path[pathBytes...]), value, progress)
        }
    }

    private func write(
        _ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ progress: (Int) -> Void
    ) throws {
        // A root that is a leaf is stored with the path "/".
        let path = path.elementsEqual("/".utf8) ? UnsafeRawBufferPointer(rebasing: path[..<0]) : path
        if text.byteCount >= Self.flushBytes, !text.continuesLeaf(path) { try text.take(send) }
        text.add(path, value)
        rowCount += 1
        last.replaceSubrange(0..., with: path)
        if rowCount % 10_000 == 0 { progress(rowCount) }
    }
}
