import Postgres
public import Tree

// The tables of the log, as this file reads them. `Batch` shows how a commit writes them.
//
//     namespace        id  head  last_batch  retained_from        one row per namespace
//                       4     9  B3          7
//                             |
//                             |  the entries 7 to 9 are in the log; retention has removed 1 to 6
//                             v
//     log              namespace_id  seq  batch_id  op      path    changes        parts      one row per entry
//                                 4    7  B2        set     /a      {"/a": 1}          0
//                                 4    8  B2        update  /       {"/b": 2}          0
//                                 4    9  B3        import  /c      {...}              2
//                                      |
//                                      |  an entry with parts: an import or a large write
//                                      v
//     log_part         namespace_id  seq  part  changes                                       one row per part
//                                 4    9     0  {"/c/x": 1, ...}
//                                 4    9     1  {"/c/y": 1, ...}
//
// Seqs have no gaps: a batch of n entries moves `head` by n. All entries of a batch have its `batch_id`, and
// `last_batch` is the batch of the entry at the head. Both distinguish a log from another history with the same seqs:
// see `HistoryRecord`. The changes of an entry with parts are `log.changes` followed by the parts in order.
// `parts` is the number of parts, so a missing part is an error (`partMissing`) and not the end of the entry.
//
// `log` is partitioned. In a new database all namespaces share the tables for seqs below 65,536; later seqs have tables
// of one namespace each.

/// An entry read from the log.
public struct LoggedEntry: Sendable {
    public let entry: Entry
    public let batchID: [UInt8]

    public init(entry: Entry, batchID: [UInt8]) {
        self.entry = entry
        self.batchID = batchID
    }
}

extension LogConnection {
    private static let pageStatement = PostgresStatement(
        "log_page", "select * from pathmirror.log_page($1, $2, $3, $4, $5)",
        types: [.int8, .int8, .int8, .int8, .int8])

    /// Returns a page of a namespace's log for a follower: entries in order, each with its changes in the order in
    /// which they are applied. From the second entry on, the page holds no more than about `request.bytes`.
    /// The first entry is the one after `request.after`, or a later one if that entry is not retained any more. If
    /// requested, the history record is read in the same round trip.
    func page(
        _ namespace: Int64, _ request: FollowerMachine.PageRequest
    ) throws(LogStoreError) -> (history: HistoryRecord?, entries: [LoggedEntry]) {
        let end = min(Self.end(of: request.after, request.entries), request.through)
        let page = Self.pageStep(namespace, request, through: end)
        let steps = request.withHistory ? Self.historySteps(namespace, at: request.after) + [page] : [page]
        let results = try translated { () throws(PostgresError) in try postgres.pipeline(steps) }
        let history = request.withHistory ? try Self.history(results) : nil
        var rows = results[steps.count - 1]
        let mayBeMore = request.withHistory ? (history?.head ?? 0) > request.after : true
        if rows.rowCount == 0, end < request.through, mayBeMore {
            rows = try translated { () throws(PostgresError) in
                try postgres.pipeline([Self.pageStep(namespace, request, through: request.through)])[0]
            }
        }
        // The namespace does not exist, or did not when the page was read. The rest of its log is about to be removed.
        if request.withHistory, history == nil || rows.rowCount > 0 && rows.isNull(0, 8) { return (nil, []) }
        return (history, try decode(rows))
    }

    /// Returns one entry, or nil if the log does not contain it.
    public func entry(_ namespace: Int64, _ seq: Int64) throws(LogStoreError) -> LoggedEntry? {
        let request = FollowerMachine.PageRequest(
            after: seq - 1, through: seq, entries: 1, bytes: .max, withHistory: false)
        return try page(namespace, request).entries.first
    }

    /// Returns the last seq of a page: a page is limited by seq as well as by number (`functions/following.sql`
    /// explains why).
    private static func end(of seq: Int64, _ limit: Int) -> Int64 {
        let (next, isBeyond) = seq.addingReportingOverflow(Int64(limit))
        return isBeyond ? .max : next
    }

    private func decode(_ rows: PostgresResult) throws(LogStoreError) -> [LoggedEntry] {
        var entries: [LoggedEntry] = []
        entries.reserveCapacity(rows.rowCount)
        for row in 0..<rows.rowCount { entries.append(try decode(rows, row)) }
        return entries
    }

    private static func pageStep(
        _ namespace: Int64, _ request: FollowerMachine.PageRequest, through last: Int64
    ) -> PipelineStep {
        .prepared(
            pageStatement,
            [
                .int8(namespace), .int8(request.after), .int8(last), .int8(Int64(request.entries)),
                .int8(Int64(request.bytes)),
            ])
    }

    private func decode(_ rows: PostgresResult, _ row: Int) throws(LogStoreError) -> LoggedEntry {
        do {
            let seq = try rows.int64(row, 0)
            let name = try rows.string(row, 2)
            guard let operation = Tree.Operation(rawValue: name) else {
                throw LogStoreError.corrupt("entry \(seq) has the unknown operation \"\(name)\"")
            }
            var changes = try ChangeCodec.decode(try rows.bytes(row, 4))
            // Entries from before `any_order_from` are not sorted, because their gateways applied the changes in the
            // stored order.
            if try rows.bool(row, 8) { changes = ApplicationOrder.sorted(changes) }
            let entry = Entry(
                seq: seq, committedAt: try rows.int64(row, 1), operation: operation,
                path: Path(splitting: try rows.string(row, 3)), changes: changes, isBulk: try rows.int32(row, 5) > 0,
                origin: rows.isNull(row, 7) ? nil : Origin(json: try rows.bytes(row, 7)))
            return LoggedEntry(entry: entry, batchID: try rows.bytes(row, 6))
        } catch let error as LogStoreError {
            throw error
        } catch let error as PostgresError {
            throw .database(error)
        } catch {
            throw .corrupt("the changes of an entry can't be read: \(error)")
        }
    }

    /// Calls `body` with the further changes of a bulk entry, part by part.
    ///
    /// - Throws: `partMissing` if retention removed the entry before its last part was read.
    public func forEachPart(
        _ namespace: Int64, of seq: Int64, _ body: ([Change]) throws(LogStoreError) -> Void
    ) throws(LogStoreError) {
        var number: Int32 = 0
        while let changes = try part(number, of: seq, namespace) {
            try body(changes)
            number += 1
        }
    }

    /// Reads one part of the further changes of a bulk entry. The first part has number 0.
    ///
    /// - Returns: nil if `number` is the number of the entry's parts, so that the previous part was the last.
    /// - Throws: `partMissing` if the log does not contain the entry, or the entry has another number of parts. Without
    ///   this check, a reader would mistake half an entry for a whole one.
    public func part(_ number: Int32, of seq: Int64, _ namespace: Int64) throws(LogStoreError) -> [Change]? {
        if let changes = try storedPart(number, of: seq, namespace) { return changes }
        let count = try partCount(of: seq, namespace)
        guard count == number else { throw .partMissing(seq: seq, part: number, count: count) }
        return nil
    }

    /// Reads one part of a bulk entry, or returns nil if there is no such part. The entry itself need not be in the log
    /// yet.
    func storedPart(_ number: Int32, of seq: Int64, _ namespace: Int64) throws(LogStoreError) -> [Change]? {
        let rows = try translated { () throws(PostgresError) in
            try postgres.execute(
                "select changes::text from pathmirror.log_part where namespace_id = $1 and seq = $2 and part = $3",
                [.int8(namespace), .int8(seq), .int4(number)])
        }
        guard rows.rowCount == 1 else { return nil }
        do {
            return try ChangeCodec.decode(try rows.bytes(0, 0))
        } catch {
            throw .corrupt("part \(number) of entry \(seq) can't be read: \(error)")
        }
    }

    /// Returns the number of an entry's parts, or nil if the log does not contain the entry.
    private func partCount(of seq: Int64, _ namespace: Int64) throws(LogStoreError) -> Int32? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select parts from pathmirror.log where namespace_id = $1 and seq = $2", [.int8(namespace), .int8(seq)])
            return rows.rowCount == 1 ? try rows.int32(0, 0) : nil
        }
    }
}
