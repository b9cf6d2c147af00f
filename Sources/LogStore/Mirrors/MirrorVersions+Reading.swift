public import Postgres

extension MirrorVersions {
    // MARK: The newest

    /// The newest version of a record: the entry that wrote it and the value, or nil if the record was deleted.
    public typealias Newest = (seq: Int64, record: [UInt8]?)

    /// The query limits the total size before it sends values, without reading them.
    private static let newest = PostgresStatement(
        "newest_mirror_versions",
        """
        select seq, record from (
            select given.n, found.seq, found.record,
                sum(coalesce(octet_length(found.record), 0)) over (order by given.n) as total
            from unnest($3) with ordinality as given (key, n)
            left join lateral (
                select seq, record from pathmirror.mirror_version
                where namespace_id = $1 and mirror = $2 and \(isKey("key", "given.key")) order by key desc, seq desc limit 1
            ) as found on true
        ) as newest where total <= $4 or n <= $5 order by n
        """, types: [.int8, .uuid, .textArray, .int8, .int8])

    /// Returns a step that reads the newest versions of the first of some records, up to a total size in bytes.
    ///
    /// - Parameter least: the number of versions to return regardless of their size.
    public func newestStep(of keys: [String], upTo bytes: Int, least: Int = 1) -> PipelineStep {
        var list = PostgresArray(of: .text)
        for key in keys { list.appendText(key) }
        var parameters = parameters
        parameters.append(list)
        parameters.appendInt8(Int64(bytes))
        parameters.appendInt8(Int64(least))
        return .prepared(Self.newest, parameters)
    }

    /// Reads the result of `newestStep`, in the order of the keys. Nil for a record without versions.
    public static func newest(_ rows: PostgresResult) throws(PostgresError) -> [Newest?] {
        var found: [Newest?] = []
        found.reserveCapacity(rows.rowCount)
        for row in 0..<rows.rowCount {
            if rows.isNull(row, 0) {
                found.append(nil)
            } else {
                found.append((try rows.int64(row, 0), rows.isNull(row, 1) ? nil : try rows.bytes(row, 1)))
            }
        }
        return found
    }

    /// Calls `body` with the newest versions of some records, in the order of the keys. Holds some megabytes of
    /// versions in memory, or a single larger one.
    ///
    /// - Parameter body: receives the key's index, and nil for a record without versions.
    public func forEachNewest(
        _ target: PostgresConnection, of keys: [String], _ body: (_ index: Int, _ newest: Newest?) throws -> Void
    ) throws {
        var position = 0
        var count = Self.keysAtOnce
        while position < keys.count {
            let some = Array(keys[position..<min(position + count, keys.count)])
            let found = try Self.newest(try target.pipeline([newestStep(of: some, upTo: Self.bytesAtOnce)])[0])
            for (index, newest) in found.enumerated() { try body(position + index, newest) }
            position += found.count
            count = Self.count(after: found.count)
        }
    }

    /// Returns the newest versions of some records, in the order of the keys. Nil for a record without versions.
    public func newest(_ target: PostgresConnection, of keys: [String]) throws -> [Newest?] {
        var found: [Newest?] = []
        try forEachNewest(target, of: keys) { found.append($1) }
        return found
    }

    private static let older = PostgresStatement(
        "older_mirror_version",
        """
        select seq, record from pathmirror.mirror_version
        where namespace_id = $1 and mirror = $2 and \(isKey("key", "$3")) and seq < $4 order by key desc, seq desc limit 1
        """, types: [.int8, .uuid, .text, .int8])

    /// Calls `body` with the versions of a record, newest first, until it returns false. Holds one version in memory.
    public func forEachBackwards(
        _ target: PostgresConnection, of key: String, _ body: (Newest) throws -> Bool
    ) throws {
        var seq = Int64.max
        while true {
            var parameters = parameters
            parameters.appendText(key)
            parameters.appendInt8(seq)
            let rows = try target.executePrepared(Self.older, parameters)
            guard rows.rowCount > 0 else { return }
            seq = try rows.int64(0, 0)
            guard try body((seq, rows.isNull(0, 1) ? nil : try rows.bytes(0, 1))) else { return }
        }
    }

    /// The maximum number of records in one query, and the maximum of their total size.
    public static let keysAtOnce = 500
    public static let bytesAtOnce = 8 << 20

    /// Returns the number of records for the next query. After a small result the records are large, and a query for
    /// many would return only few.
    public static func count(after found: Int) -> Int { min(keysAtOnce, max(1, found * 2)) }

    /// Returns the current number of records. Scans the key backwards, which needs no sort.
    public func count(_ target: PostgresConnection) throws(PostgresError) -> Int64 {
        try target.execute(
            """
            select count(*) from (
                select distinct on (key) record is null as is_gone from pathmirror.mirror_version
                where namespace_id = $1 and mirror = $2 order by key desc, seq desc
            ) as newest where not is_gone
            """, parameters
        ).int64(0, 0)
    }

    // MARK: Many

    /// Selects versions to read.
    public enum Selection: Sendable {
        /// All versions. The versions of each record come together, oldest first.
        case all
        /// The newest version of each record that exists.
        case now
        /// For each record, the newest version after an entry in which the record existed.
        case lastValues(after: Int64)
        /// The versions that one entry wrote, each with the previous value.
        case entry(Int64)
        /// The versions of the entries after one entry, up to another. The versions of each record come together,
        /// oldest first, and the first has the previous value.
        case between(Int64, Int64)
    }

    /// Reads versions in slices, in the open transaction of the connection. Between two slices, the caller may run
    /// other statements that change nothing of records still to come. Holds some megabytes of versions in memory, or a
    /// single version with its previous value.
    public func read(
        _ target: PostgresConnection, _ selection: Selection, _ body: ([MirrorVersionChange]) throws -> Void
    ) throws {
        try declare(target, selection)
        while true {
            let rows = try target.execute("fetch \(Self.versionsAtOnce) from mirror_versions")
            guard rows.rowCount > 0 else { break }
            var slice: [MirrorVersionChange] = []
            for row in 0..<rows.rowCount {
                if try Self.isWhole(rows, row) {
                    slice.append(try Self.change(rows, row))
                    continue
                }
                // Large versions are read one by one, because several may not fit into memory.
                if !slice.isEmpty { try body(slice) }
                slice.removeAll(keepingCapacity: true)
                try body([try large(target, rows, row)])
            }
            if !slice.isEmpty { try body(slice) }
        }
        try target.executeScript("close mirror_versions")
    }

    private static let versionsAtOnce = 250
    /// The maximum size of a value that is returned in a slice with others.
    private static let manyBytes = 32 << 10

    private static func columns(_ version: String, _ before: String) -> String {
        let fields = ["key", "seq", "uid", "is_admin", "via", "is_begin"].map { "\(version).\($0)" }
        let values = [version, before].map { row in
            """
            case when octet_length(\(row).record) <= \(manyBytes) then \(row).record end,
            coalesce(octet_length(\(row).record), -1)
            """
        }
        let all = fields + ["(extract(epoch from \(version).at) * 1000)::bigint", "\(before).key is null"] + values
        return all.joined(separator: ", ")
    }

    /// The indexes of the columns in `columns`.
    private enum Column {
        static let key = 0, seq = 1, uid = 2, isAdmin = 3, via = 4, isBegin = 5, at = 6, isFirst = 7
        static let record = 8, size = 9, before = 10, sizeBefore = 11
    }

    private static let nothing = "left join pathmirror.mirror_version as before on false"

    private func declare(_ target: PostgresConnection, _ selection: Selection) throws(PostgresError) {
        var parameters = parameters
        let columns = Self.columns("made", "before")
        let query: String
        switch selection {
        case .all:
            query = """
                select \(columns) from pathmirror.mirror_version as made \(Self.nothing)
                where made.namespace_id = $1 and made.mirror = $2 order by made.key, made.seq
                """
        case .now:
            // The scan runs backwards, as in `count`.
            query = """
                select \(columns) from (
                    select distinct on (key) * from pathmirror.mirror_version
                    where namespace_id = $1 and mirror = $2 order by key desc, seq desc
                ) as made \(Self.nothing) where made.record is not null
                """
        case .lastValues(let seq):
            parameters.appendInt8(seq)
            query = """
                select \(columns) from (
                    select distinct on (key) * from pathmirror.mirror_version
                    where namespace_id = $1 and mirror = $2 and seq > $3 and record is not null order by key desc, seq desc
                ) as made \(Self.nothing)
                """
        case .between(let seq, let last):
            parameters.appendInt8(seq)
            parameters.appendInt8(last)
            query = """
                select \(columns) from (
                    select *, row_number() over (partition by key order by seq) = 1 as is_first from pathmirror.mirror_version
                    where namespace_id = $1 and mirror = $2 and seq > $3 and seq <= $4
                ) as made left join lateral (\(Self.older("made.key", "made.seq"))) as before on made.is_first
                order by made.key, made.seq
                """
        case .entry(let seq):
            parameters.appendInt8(seq)
            query = """
                select \(columns) from pathmirror.mirror_version as made
                left join lateral (\(Self.older("made.key", "$3"))) as before on true
                where made.namespace_id = $1 and made.mirror = $2 and made.seq = $3
                """
        }
        _ = try target.execute("declare mirror_versions no scroll cursor for \(query)", parameters)
    }

    /// Returns a query for the last version of a record before an entry.
    private static func older(_ key: String, _ seq: String) -> String {
        """
        select older.key, older.record from pathmirror.mirror_version as older
        where older.namespace_id = $1 and older.mirror = $2 and \(isKey("older.key", key)) and older.seq < \(seq)
        order by older.key desc, older.seq desc limit 1
        """
    }

    private static func isWhole(_ rows: PostgresResult, _ row: Int) throws(PostgresError) -> Bool {
        let sizes = (try rows.int32(row, Column.size), try rows.int32(row, Column.sizeBefore))
        return sizes.0 <= manyBytes && sizes.1 <= manyBytes
    }

    private static func change(_ rows: PostgresResult, _ row: Int) throws(PostgresError) -> MirrorVersionChange {
        let bytes = { (column: Int) throws(PostgresError) in
            rows.isNull(row, column) ? nil : try rows.bytes(row, column)
        }
        return try change(rows, row, record: try bytes(Column.record), before: try bytes(Column.before))
    }

    private static func change(
        _ rows: PostgresResult, _ row: Int, record: [UInt8]?, before: [UInt8]?
    ) throws(PostgresError) -> MirrorVersionChange {
        let text = { (column: Int) throws(PostgresError) in
            rows.isNull(row, column) ? nil : try rows.string(row, column)
        }
        var author: MirrorAuthor?
        if !rows.isNull(row, Column.isAdmin) {
            author = MirrorAuthor(
                uid: try text(Column.uid), isAdmin: try rows.bool(row, Column.isAdmin), via: try text(Column.via))
        }
        return MirrorVersionChange(
            version: MirrorVersionRecord(
                key: try rows.string(row, Column.key), seq: try rows.int64(row, Column.seq),
                at: rows.isNull(row, Column.at) ? nil : try rows.int64(row, Column.at), author: author,
                isBegin: try rows.bool(row, Column.isBegin), record: record),
            before: before, isFirst: try rows.bool(row, Column.isFirst))
    }

    /// Reads a version whose values are too large for a slice.
    private func large(
        _ target: PostgresConnection, _ rows: PostgresResult, _ row: Int
    ) throws(PostgresError) -> MirrorVersionChange {
        var parameters = parameters
        parameters.appendText(try rows.bytes(row, Column.key))
        parameters.appendInt8(try rows.int64(row, Column.seq))
        let value = { (query: String) throws(PostgresError) -> [UInt8]? in
            let found = try target.execute(query, parameters)
            return found.rowCount == 0 || found.isNull(0, 0) ? nil : try found.bytes(0, 0)
        }
        let record = try value(
            "select record from pathmirror.mirror_version where namespace_id = $1 and mirror = $2 and key = $3 and seq = $4"
        )
        let hasBefore = try rows.int32(row, Column.sizeBefore) >= 0
        let before = hasBefore ? try value("select record from (\(Self.older("$3", "$4"))) as older") : nil
        return try Self.change(rows, row, record: record, before: before)
    }
}
