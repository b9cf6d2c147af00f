import Postgres
import Runtime

/// An administrator's description of a log position: a seq, a time, or the head. `seq(_:_:)` and `firstSeq(_:_:)` find
/// the entry in a namespace's log.
public enum SeqOrTime: Sendable, Equatable {
    case head
    case seq(Int64)
    /// A time in PostgreSQL's syntax, in UTC unless it contains a zone. Or a time span before now: `1h`, `-2d`.
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

    /// Parses an argument of a command, including time spans before now: `90s`, `15m`, `1h`, `2d`, `1w`, each optionally with a
    /// leading `-`; and `now`. The meaning depends on the current time, so this is for commands and not for stored
    /// definitions.
    public init(argument text: String) throws(ReplayError) {
        if text == "now" {
            self = .head
        } else if Self.secondsAgo(text) != nil {
            self = .time(text)
        } else {
            try self.init(text)
        }
    }

    /// Returns the seconds before now for a text such as `-2d`, or nil for other texts.
    static func secondsAgo(_ text: String) -> Int64? {
        let bare = text.hasPrefix("-") ? text.dropFirst() : text[...]
        guard let seconds = TimeSpan.seconds(bare), seconds <= 1_000 * 366 * 86_400 else { return nil }
        return seconds
    }

    /// Returns the first entry of a range that begins here: the entry of a seq itself, or the first entry committed
    /// after a time.
    public func firstSeq(_ connection: LogConnection, _ namespace: NamespaceRecord) throws -> Int64 {
        let seq = try seq(connection, namespace)
        if case .seq = self { return seq }
        return seq + 1
    }

    /// Returns the entry of a seq, the last entry committed by a time, or the head. Costs a few lookups, regardless of the length of the log.
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
        // The time is in UTC unless the text contains a zone.
        try connection.postgres.executeScript("set timezone to 'UTC'")
        if let seconds = secondsAgo(text) {
            // The database's clock, which also stamps the entries.
            return try connection.postgres.execute(
                "select ((extract(epoch from clock_timestamp()) - $1::bigint) * 1000000)::bigint", [.int8(seconds)]
            ).int64(0, 0)
        }
        do {
            return try connection.postgres.execute(
                "select (extract(epoch from $1::timestamptz) * 1000000)::bigint", [.text(text)]
            ).int64(0, 0)
        } catch {
            // Infinity is a valid time without a number: 0A000.
            guard let state = error.sqlState, state.hasPrefix("22") || state == "0A000" else { throw error }
            throw ReplayError.badPosition(text)
        }
    }
}

extension LogConnection {
    /// Returns the last entry that was committed at or before a time in microseconds since 1970, or 0 for the empty
    /// tree before the first entry. Returns nil if neither the log nor the snapshots reach back that far.
    func lastSeq(_ namespace: NamespaceRecord, committedBy time: Int64) throws -> Int64? {
        // Times follow the order of seqs. The entry at `low` was committed by the time, or is unknown; the entry at
        // `high` was not.
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
        // The time is before the retained log: only a snapshot directly before the log can give the answer.
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
