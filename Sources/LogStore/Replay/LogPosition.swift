import Postgres
import Runtime

/// A moment of a namespace, as an operator names it.
public enum LogPosition: Sendable, Equatable {
    case head
    case seq(Int64)
    /// A time, as PostgreSQL reads it; without a zone it is UTC. Or how long ago: `1h`, `-2d`.
    case time(String)

    public init(_ text: String) throws(ReplayError) {
        if text == "head" {
            self = .head
        } else if let seq = Int64(text) {
            guard seq >= 0 else { throw .badPosition(text) }
            self = .seq(seq)
        } else {
            guard text.utf8.contains(UInt8(ascii: "-")) || text.utf8.contains(UInt8(ascii: ":")) else {
                throw .badPosition(text)
            }
            self = .time(text)
        }
    }

    /// The same, and how long ago: `90s`, `15m`, `1h`, `2d`, `1w`, each also with a `-` before it; `now`. What that means
    /// depends on when it is asked for: for commands, not for definitions that are kept.
    public init(moment text: String) throws(ReplayError) {
        if text == "now" {
            self = .head
        } else if Self.secondsAgo(text) != nil {
            self = .time(text)
        } else {
            try self.init(text)
        }
    }

    /// Seconds before now that a text such as `-2d` says; nil for other texts.
    static func secondsAgo(_ text: String) -> Int64? {
        let bare = text.hasPrefix("-") ? text.dropFirst() : text[...]
        guard let seconds = TimeSpan.seconds(bare), seconds <= 1_000 * 366 * 86_400 else { return nil }
        return seconds
    }

    /// The first entry that "from this moment on" means: that of a seq itself, and of a time the first committed after it.
    public func firstSeq(_ connection: LogConnection, _ namespace: NamespaceRecord) throws -> Int64 {
        let seq = try seq(connection, namespace)
        if case .seq = self { return seq }
        return seq + 1
    }

    /// The seq of the last entry that had been committed then. Costs a few look-ups, whatever the length of the log.
    public func seq(_ connection: LogConnection, _ namespace: NamespaceRecord) throws -> Int64 {
        guard let record = try connection.namespace(id: namespace.id) else {
            throw LogStoreError.unknownNamespace(namespace.name)
        }
        switch self {
        case .head: return record.head
        case .seq(let seq):
            guard seq <= record.head else { throw ReplayError.beyondHead(seq: seq, head: record.head) }
            return seq
        case .time(let text):
            let microseconds = try Self.microseconds(text, connection)
            if let seq = try connection.lastSeq(record, committedBy: microseconds) { return seq }
            throw ReplayError.beforeTheLog(time: text, oldest: try connection.oldestTime(record))
        }
    }

    private static func microseconds(_ text: String, _ connection: LogConnection) throws -> Int64 {
        // As a time of UTC unless the text has a zone.
        try connection.postgres.executeScript("set timezone to 'UTC'")
        if let seconds = secondsAgo(text) {
            // By the clock that entries have their times of.
            return try connection.postgres.execute(
                "select ((extract(epoch from clock_timestamp()) - $1::bigint) * 1000000)::bigint", [.int8(seconds)]
            ).int64(0, 0)
        }
        do {
            return try connection.postgres.execute(
                "select (extract(epoch from $1::timestamptz) * 1000000)::bigint", [.text(text)]
            ).int64(0, 0)
        } catch {
            // Infinity is a time, but none that has a number: 0A000.
            guard let state = error.sqlState, state.hasPrefix("22") || state == "0A000" else { throw error }
            throw ReplayError.badPosition(text)
        }
    }
}

extension LogConnection {
    /// The last entry that was committed at or before a time (in microseconds since 1970); 0 for the empty tree before the
    /// first. Nil when the log and the snapshots don't reach back so far.
    func lastSeq(_ namespace: NamespaceRecord, committedBy time: Int64) throws -> Int64? {
        // Times follow the order of seqs. `low` is by then, or unknown; `high` is not.
        var low = namespace.retainedFrom - 1
        var high = namespace.head + 1
        while high - low > 1 {
            let middle = low + (high - low) / 2
            let rows = try postgres.execute(
                """
                select (extract(epoch from committed_at) * 1000000)::bigint <= $3 from pathmirror.log
                where namespace_id = $1 and seq = $2
                """, [.int8(namespace.id), .int8(middle), .int8(time)])
            guard rows.rowCount == 1 else { throw ReplayError.pruned(seq: middle) }
            if try rows.bool(0, 0) { low = middle } else { high = middle }
        }
        guard low == namespace.retainedFrom - 1, low > 0 else { return low }
        // Before the log that is left: only a snapshot right before it knows.
        let rows = try postgres.execute(
            """
            select seq from pathmirror.snapshot where namespace_id = $1 and seq = $2
            and (extract(epoch from entry_at) * 1000000)::bigint <= $3
            """, [.int8(namespace.id), .int8(low), .int8(time)])
        return rows.rowCount == 1 ? try rows.int64(0, 0) : nil
    }

    fileprivate func oldestTime(_ namespace: NamespaceRecord) throws -> String {
        let rows = try postgres.execute(
            """
            select to_char(coalesce(
                (select entry_at from pathmirror.snapshot where namespace_id = $1 and seq = $2 - 1),
                (select committed_at from pathmirror.log where namespace_id = $1 and seq = $2)), 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
            """, [.int8(namespace.id), .int8(namespace.retainedFrom)])
        return rows.isNull(0, 0) ? "nothing" : try rows.string(0, 0)
    }
}
