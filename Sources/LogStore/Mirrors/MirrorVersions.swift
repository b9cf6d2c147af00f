public import Postgres

/// The author of an entry, as stored in histories.
public struct MirrorAuthor: Sendable, Equatable {
    public let uid: String?
    public let isAdmin: Bool
    public let via: String?

    public init(uid: String?, isAdmin: Bool, via: String?) {
        self.uid = uid
        self.isAdmin = isAdmin
        self.via = via
    }
}

/// A version of a record: its value from one entry on.
public struct MirrorVersionRecord: Sendable, Equatable {
    /// The captured keys, joined by `/`.
    public let key: String
    public let seq: Int64
    /// The commit time of the entry, in milliseconds since 1970.
    public let at: Int64?
    /// Nil if unknown.
    public let author: MirrorAuthor?
    /// Whether this is the state of the record at the beginning of its history.
    public let isBegin: Bool
    /// JSON in export form, or nil if the record was deleted.
    public let record: [UInt8]?

    public init(key: String, seq: Int64, at: Int64?, author: MirrorAuthor?, isBegin: Bool, record: [UInt8]?) {
        self.key = key
        self.seq = seq
        self.at = at
        self.author = author
        self.isBegin = isBegin
        self.record = record
    }
}

/// The change of a record by an entry, with the previous value.
public struct MirrorVersionChange: Sendable {
    public let version: MirrorVersionRecord
    public let before: [UInt8]?
    /// Whether the record has no earlier version.
    public let isFirst: Bool
}

/// The versions of a mirror's records: rows of `pathmirror.mirror_version` in the database of the mirror's table, whose
/// rows are derived from them. They change in the transactions that change the table and move the cursor.
public struct MirrorVersions: Sendable {
    public let namespace: Int64
    public let mirror: [UInt8]

    /// Creates a reference to the versions of a mirror.
    public init(namespace: Int64, mirror: [UInt8]) {
        self.namespace = namespace
        self.mirror = mirror
    }

    var parameters: PostgresParameters { [.int8(namespace), .uuid(mirror)] }

    /// Returns a condition that preserves the order of the primary key. Given an equality, PostgreSQL may search for
    /// the newest version in another index, through versions of all records.
    static func isKey(_ key: String, _ other: String) -> String { "\(key) >= \(other) and \(key) <= \(other)" }

    private static let insert = PostgresStatement(
        "insert_mirror_versions",
        """
        insert into pathmirror.mirror_version (namespace_id, mirror, key, seq, at, uid, is_admin, via, is_begin, record)
        select $1, $2, given.* from unnest($3, $4, $5, $6, $7, $8, $9, $10)
            as given (key, seq, at, uid, is_admin, via, is_begin, record)
        on conflict (namespace_id, mirror, key, seq) do update set record = excluded.record
        """,
        types: [
            .int8, .uuid, .textArray, .int8Array, .timestamptzArray, .textArray, .boolArray, .textArray, .boolArray,
            .textArray,
        ])

    /// Selects the distinct keys of a range. It skips from key to key, so the cost depends on the number of records and
    /// not of versions. The upper bound is checked outside: as a condition of the search for the next key, it would
    /// make PostgreSQL read all following versions if no key is left in the range.
    private static let keysOfRange = """
        with recursive keys as (
            (
                select key from pathmirror.mirror_version
                where namespace_id = $1 and mirror = $2 and key > given.low order by key limit 1
            )
            union all
            select (
                select next.key from pathmirror.mirror_version as next
                where next.namespace_id = $1 and next.mirror = $2 and next.key > keys.key order by next.key limit 1)
            from keys where keys.key is not null and (given.high is null or keys.key < given.high)
        )
        select key from keys where key is not null and (given.high is null or key < given.high)
        """
    /// Selects whether the newest version of a picked key is a deletion.
    private static let newestOfPicked = """
        select record is null as is_gone from pathmirror.mirror_version as newest
        where newest.namespace_id = $1 and newest.mirror = $2 and \(isKey("newest.key", "picked.key"))
        order by newest.key desc, newest.seq desc limit 1
        """

    private static let keys = PostgresStatement(
        "keys_of_mirror_versions",
        """
        select given.n, case when not newest.is_gone then picked.key end
        from unnest($3, $4) with ordinality as given (low, high, n)
        cross join lateral (\(keysOfRange) limit $5) as picked cross join lateral (\(newestOfPicked)) as newest
        """, types: [.int8, .uuid, .textArray, .textArray, .int8])

    private static let clear = PostgresStatement(
        "clear_mirror_versions",
        """
        with picked as (
            select given.n, below.key from unnest($3, $4) with ordinality as given (low, high, n)
            cross join lateral (\(keysOfRange) limit $10) as below
        ), made as (
            insert into pathmirror.mirror_version
                (namespace_id, mirror, key, seq, at, uid, is_admin, via, is_begin, record)
            select $1, $2, picked.key, $5, $6, $7, $8, $9, false, null
            from picked cross join lateral (\(newestOfPicked)) as newest where not is_gone
            on conflict (namespace_id, mirror, key, seq) do update set record = null
        )
        select n, max(key) from picked group by n having count(*) = $10
        """,
        types: [.int8, .uuid, .textArray, .textArray, .int8, .timestamptz, .text, .bool, .text, .int8])

    private static let remove = PostgresStatement(
        "remove_mirror_versions",
        "delete from pathmirror.mirror_version where namespace_id = $1 and mirror = $2 and seq = $3 and key = any($4)",
        types: [.int8, .uuid, .int8, .textArray])

    private static let removeBefore = PostgresStatement(
        "remove_older_mirror_versions",
        """
        delete from pathmirror.mirror_version as old using unnest($3, $4) as given (key, seq)
        where namespace_id = $1 and mirror = $2 and old.key = given.key and old.seq < given.seq
        """, types: [.int8, .uuid, .textArray, .int8Array])

    private static let removeBetween = PostgresStatement(
        "remove_middle_mirror_versions",
        """
        delete from pathmirror.mirror_version as old using unnest($3, $4) as given (key, seq)
        where namespace_id = $1 and mirror = $2 and old.key = given.key and old.seq < given.seq and 2 <= (
            select count(*) from pathmirror.mirror_version as older
            where older.namespace_id = $1 and older.mirror = $2 and older.key = old.key and older.seq < old.seq)
        """, types: [.int8, .uuid, .textArray, .int8Array])

    // MARK: Writing

    /// Returns a step that stores versions. It replaces the value of a version that exists already.
    public func storeStep(_ versions: [MirrorVersionRecord]) -> PipelineStep {
        var keys = PostgresArray(of: .text)
        var seqs = PostgresArray(of: .int8)
        var times = PostgresArray(of: .timestamptz)
        var uids = PostgresArray(of: .text)
        var admins = PostgresArray(of: .bool)
        var transports = PostgresArray(of: .text)
        var begins = PostgresArray(of: .bool)
        var records = PostgresArray(of: .text)
        for version in versions {
            keys.appendText(version.key)
            seqs.appendInt8(version.seq)
            if let at = version.at { times.appendTimestamp(unixMicroseconds: at * 1_000) } else { times.appendNull() }
            if let uid = version.author?.uid { uids.appendText(uid) } else { uids.appendNull() }
            if let author = version.author { admins.appendBool(author.isAdmin) } else { admins.appendNull() }
            if let via = version.author?.via { transports.appendText(via) } else { transports.appendNull() }
            begins.appendBool(version.isBegin)
            if let record = version.record { records.appendText(record) } else { records.appendNull() }
        }
        var parameters = parameters
        for array in [keys, seqs, times, uids, admins, transports, begins, records] { parameters.append(array) }
        return .prepared(Self.insert, parameters)
    }

    /// Marks all records below some keys as deleted, in the open transaction. Each statement handles some thousands of
    /// records, so that none takes long.
    ///
    /// - Parameters:
    ///   - beginnings: the leading keys joined by `/`, or nil for all records. No beginning is a prefix of another.
    ///   - version: the entry and its author.
    public func clear(
        _ target: PostgresConnection, below beginnings: [String?], by version: MirrorVersionRecord
    ) throws(PostgresError) {
        for start in stride(from: 0, to: beginnings.count, by: Self.rangesAtOnce) {
            var left = beginnings[start..<min(start + Self.rangesAtOnce, beginnings.count)].map(Self.range)
            while !left.isEmpty {
                var parameters = parameters(left)
                Self.append(version, to: &parameters)
                parameters.appendInt8(Self.clearedAtOnce)
                let rows = try target.executePrepared(Self.clear, parameters)
                var next: [KeyRange] = []
                for row in 0..<rows.rowCount {
                    next.append((try rows.bytes(row, 1), left[Int(try rows.int64(row, 0)) - 1].high))
                }
                left = next
            }
        }
    }

    /// Returns a step that reads the records below some keys, which are those that `clear` marks as deleted.
    ///
    /// - Parameter count: the maximum number of keys to read in each range, from the lowest.
    public func keysStep(below beginnings: [String?], atMost count: Int) -> PipelineStep {
        var parameters = parameters(beginnings.map(Self.range))
        parameters.appendInt8(Int64(count))
        return .prepared(Self.keys, parameters)
    }

    /// Reads the result of `keysStep`: keys, or nil for each deleted record, with the index of the beginning above the
    /// record.
    public static func keys(_ rows: PostgresResult) throws(PostgresError) -> [(index: Int, key: String?)] {
        var found: [(index: Int, key: String?)] = []
        found.reserveCapacity(rows.rowCount)
        for row in 0..<rows.rowCount {
            found.append((Int(try rows.int64(row, 0)) - 1, rows.isNull(row, 1) ? nil : try rows.string(row, 1)))
        }
        return found
    }

    private typealias KeyRange = (low: [UInt8], high: String?)

    /// "0" is the character after "/".
    private static func range(_ beginning: String?) -> KeyRange {
        (low: beginning.map { Array(($0 + "/").utf8) } ?? [], high: beginning.map { $0 + "0" })
    }

    private func parameters(_ ranges: [KeyRange]) -> PostgresParameters {
        var low = PostgresArray(of: .text)
        var high = PostgresArray(of: .text)
        for range in ranges {
            low.appendText(range.low)
            if let end = range.high { high.appendText(end) } else { high.appendNull() }
        }
        var parameters = parameters
        parameters.append(low)
        parameters.append(high)
        return parameters
    }

    /// The maximum numbers of records per range and of ranges in one statement.
    private static let clearedAtOnce: Int64 = 5_000
    private static let rangesAtOnce = 100

    private static func append(_ version: MirrorVersionRecord, to parameters: inout PostgresParameters) {
        parameters.appendInt8(version.seq)
        if let at = version.at {
            parameters.appendTimestamp(unixMicroseconds: at * 1_000)
        } else {
            parameters.appendNull(.timestamptz)
        }
        parameters.append((version.author?.uid).map { .text($0) } ?? .null(.text))
        parameters.append((version.author?.isAdmin).map { .bool($0) } ?? .null(.bool))
        parameters.append((version.author?.via).map { .text($0) } ?? .null(.text))
    }

    /// Returns a step that removes the versions that an entry wrote of some records.
    public func removeStep(_ keys: [String], at seq: Int64) -> PipelineStep {
        var list = PostgresArray(of: .text)
        for key in keys { list.appendText(key) }
        var parameters = parameters
        parameters.appendInt8(seq)
        parameters.append(list)
        return .prepared(Self.remove, parameters)
    }

    /// Returns a step that removes the versions older than these, or all of them except the two oldest.
    public func thinStep(_ versions: [(key: String, seq: Int64)], keepingTwo: Bool) -> PipelineStep {
        var keys = PostgresArray(of: .text)
        var seqs = PostgresArray(of: .int8)
        for version in versions {
            keys.appendText(version.key)
            seqs.appendInt8(version.seq)
        }
        var parameters = parameters
        parameters.append(keys)
        parameters.append(seqs)
        return .prepared(keepingTwo ? Self.removeBetween : Self.removeBefore, parameters)
    }

    /// Returns a step that removes all versions written by entries after `seq`, or all versions if it is nil.
    public func forgetStep(after seq: Int64? = nil) -> PipelineStep {
        var parameters = parameters
        // The condition is added only if needed: without statistics, PostgreSQL would choose the index by seq.
        if let seq { parameters.appendInt8(seq) }
        return .query(
            """
            delete from pathmirror.mirror_version where namespace_id = $1 and mirror = $2\(seq == nil ? "" : " and seq > $3")
            """, parameters)
    }
}

extension LogConnection {
    /// Returns the commit time of an entry, in milliseconds since 1970. If the log only contains the next entry,
    /// returns the time of that. Returns nil if neither is known.
    public func entryTime(_ namespace: Int64, _ seq: Int64) throws(LogStoreError) -> Int64? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select (extract(epoch from coalesce(
                    (select committed_at from pathmirror.log where namespace_id = $1 and seq = $2),
                    (select entry_at from pathmirror.snapshot where namespace_id = $1 and seq = $2),
                    (select committed_at from pathmirror.log where namespace_id = $1 and seq = $2 + 1))) * 1000)::bigint
                """, [.int8(namespace), .int8(seq)])
            return rows.isNull(0, 0) ? nil : try rows.int64(0, 0)
        }
    }
}
