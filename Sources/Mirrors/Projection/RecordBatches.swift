import LogStore
import Runtime
import Tree

/// Reads the records of a pattern on a thread of its own, some at a time: the next ones are read while those before become rows.
enum RecordBatches {
    struct Record: Sendable {
        let keys: [Key]
        let value: Node
        /// The newest version among its rows.
        let version: Int64
    }

    /// What one batch may have of the table's bytes. One record may be more.
    private static let bytesAtOnce = 1 << 20
    /// Batches that wait while one is worked on.
    private static let waiting = 2
    private static let rowsBetweenLooks = 1_000

    /// - Parameters:
    ///   - source: does nothing else meanwhile; when this returns or throws it can be used again. Where not all was read its
    ///     transaction has failed.
    ///   - most: the most records of a batch.
    static func forEach(
        _ namespace: Int64, _ pattern: PathPattern, _ source: LogConnection, most: Int,
        _ body: ([Record]) throws -> Void
    ) throws {
        let batches = Conveyor<[Record]>(capacity: waiting)
        // Safe: the thread has the connection to itself until it has ended, and that is waited for below.
        nonisolated(unsafe) let source = source
        let thread = Thread(name: "records", isVital: false) {
            do {
                try read(namespace, pattern, source, most, batches)
                batches.end()
            } catch {
                batches.end(error)
            }
        }
        guard thread.isStarted else {
            throw NoThread()
        }
        defer {
            batches.leave()
            thread.join()
        }
        while let batch = try batches.next() { try body(batch) }
    }

    private static func read(
        _ namespace: Int64, _ pattern: PathPattern, _ source: LogConnection, _ most: Int, _ batches: Conveyor<[Record]>
    ) throws {
        var batch: [Record] = []
        var bytes = 0
        var rows = 0
        func hand() throws {
            guard batches.put(batch) else { throw Left() }
            batch = []
            bytes = 0
        }
        func note(_ size: Int) throws {
            bytes += size
            rows += 1
            if rows % rowsBetweenLooks == 0, batches.isLeft { throw Left() }
        }
        try RecordStream.read(namespace, pattern, above: [], source, onRow: note) { keys, value, version in
            batch.append(Record(keys: keys, value: value, version: version))
            if batch.count >= most || bytes >= bytesAtOnce { try hand() }
        }
        if !batch.isEmpty { try hand() }
    }

    private struct NoThread: Error, CustomStringConvertible {
        let description = "The system made no thread to read the tree: it is short of memory or of threads."
    }

    /// Nobody wants the rest.
    private struct Left: Error {}
}
