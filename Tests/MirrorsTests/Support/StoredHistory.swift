import LogStore
import Postgres
import TestSupport
import Tree

@testable import Mirrors

/// The actual content of a table that keeps earlier states of records, and its versions, from one consistent read.
struct StoredHistory {
    let definition: MirrorDefinition
    let seq: Int64
    let begins: Int64
    private(set) var versions: [PlainHistory.Version] = []
    /// The rows of a table of changes.
    private(set) var changes: [PlainHistory.VersionID: PlainHistory.Change] = [:]
    /// The rows of a table that keeps removed rows.
    private(set) var last: [Key: PlainHistory.Last] = [:]
    private(set) var problems: [String] = []

    init?(_ log: LogConnection, _ mirror: CatalogMirror) throws {
        try log.sql.executeScript(
            "begin isolation level repeatable read read only; set local timezone = 'UTC'")
        defer { try? log.sql.executeScript("rollback") }
        guard let cursor = try MirrorCursor.of([mirror.id], in: mirror.namespaceID, log.sql).first else { return nil }
        definition = cursor.definition
        seq = cursor.seq
        begins = cursor.begins?.seq ?? -1
        try MirrorVersions(namespace: mirror.namespaceID, mirror: mirror.id).read(log.sql, .all) { slice in
            versions += slice.map { change in
                PlainHistory.Version(
                    key: Key(change.version.key), seq: change.version.seq, via: change.version.author?.via,
                    record: change.version.record.map { String(decoding: $0, as: UTF8.self) })
            }
        }
        switch definition.keeps {
        case .changes:
            try readChanges(log.sql)
            try compareVersions(log.sql)
        case .latest: try readLast(log.sql)
        case nil: break
        }
    }

    private var table: String {
        "\(quotedIdentifier(definition.schema)).\(quotedIdentifier(definition.table))"
    }

    private var key: String {
        definition.keys.map { "\(quotedIdentifier($0.name))::text" }.joined(separator: " || '/' || ")
    }

    private mutating func readChanges(_ sql: PostgresConnection) throws {
        let old = ColumnText.ofJSON("_old", definition)
        let new = ColumnText.ofJSON("_new", definition)
        let columns = (old + new).joined(separator: ", ")
        let rows = try sql.execute(
            "select \(key), _seq, _operation, _old is null, _new is null, \(columns) from \(table)")
        for row in 0..<rows.rowCount {
            var before = try ColumnText.row(definition, rows, row, from: 5)
            // The column lists conversion errors of the new row.
            before.conversionErrors = []
            let after = try ColumnText.row(definition, rows, row, from: 5 + old.count)
            let version = PlainHistory.VersionID(key: Key(try rows.string(row, 0)), seq: try rows.int64(row, 1))
            changes[version] = PlainHistory.Change(
                operation: try rows.string(row, 2), old: try rows.bool(row, 3) ? nil : before,
                new: try rows.bool(row, 4) ? nil : after)
        }
    }

    /// Records a problem where the versions view differs from the table of changes.
    private mutating func compareVersions(_ sql: PostgresConnection) throws {
        let keys = definition.keys.map { quotedIdentifier($0.name) }.joined(separator: ", ")
        let view = quotedIdentifier(MirrorDefinition.versionsView(of: definition.table))
        let rows = try sql.execute(
            """
            select \(key), _seq, _deleted,
                _current = (lead(_seq) over versions is null)
                and _valid_to is not distinct from lead(_valid_from) over versions,
                \(ColumnText.ofTable(definition).joined(separator: ", "))
            from \(quotedIdentifier(definition.schema)).\(view)
            window versions as (partition by \(keys) order by _seq)
            """)
        if rows.rowCount != changes.count {
            problems.append("there are \(rows.rowCount) versions of \(changes.count) changes")
        }
        for row in 0..<rows.rowCount {
            let version = PlainHistory.VersionID(key: Key(try rows.string(row, 0)), seq: try rows.int64(row, 1))
            let values = try ColumnText.row(definition, rows, row, from: 4)
            let wanted = changes[version]?.new
            if try rows.bool(row, 2) != (wanted == nil) { problems.append("version \(version) is wrongly deleted") }
            if values != wanted ?? PlainProjection.Row(columns: values.columns.map { _ in nil }) {
                problems.append("version \(version) is \(values), the change left \(String(describing: wanted))")
            }
            if try !rows.bool(row, 3) { problems.append("version \(version) does not end where the next one begins") }
        }
    }

    private mutating func readLast(_ sql: PostgresConnection) throws {
        let rows = try sql.execute(
            """
            select \(key), _seq, (extract(epoch from _updated_at) * 1000)::bigint,
                (extract(epoch from _deleted_at) * 1000)::bigint, \(ColumnText.ofTable(definition).joined(separator: ", "))
            from \(table)
            """)
        for row in 0..<rows.rowCount {
            let key = Key(try rows.string(row, 0))
            let at = rows.isNull(row, 2) ? nil : try rows.int64(row, 2)
            last[key] = PlainHistory.Last(
                row: try ColumnText.row(definition, rows, row, from: 4), seq: try rows.int64(row, 1), at: at,
                isGone: !rows.isNull(row, 3))
            if !rows.isNull(row, 3), try rows.int64(row, 3) != at { problems.append("\(key) went at another time") }
        }
    }

    /// Returns the first difference from the expected history, or nil if there is none.
    func difference(from plain: PlainHistory) -> String? {
        let context =
            "history \(definition.name) (\(definition.pattern), \(String(describing: definition.keeps))) at seq \(seq)"
        if let problem = problems.first { return "\(context): \(problem)" }
        if definition.keeps == .latest { return lastDifference(from: plain).map { "\(context): \($0)" } }
        let wanted = Set(plain.versions.map { Key($0.description) })
        let found = Set(versions.map { Key($0.description) })
        if wanted != found || versions.count != plain.versions.count {
            return
                "\(context): missing \(wanted.subtracting(found).sorted()), too many \(found.subtracting(wanted).sorted())"
        }
        for row in Set(changes.keys).union(plain.changes.keys) {
            var wanted = plain.changes[row]
            // Conversion errors of the old row are not repeated.
            wanted?.old?.conversionErrors = []
            if changes[row] != wanted {
                return
                    "\(context): \(row) is \(String(describing: changes[row])), wanted \(String(describing: wanted))"
            }
        }
        return nil
    }

    private func lastDifference(from plain: PlainHistory) -> String? {
        for key in Set(last.keys).union(plain.last.keys) {
            var found = last[key]
            if let wanted = plain.last[key], wanted.seq == nil {
                found?.seq = nil
                found?.at = nil
            }
            if found != plain.last[key] {
                return "\(key) is \(String(describing: found)), wanted \(String(describing: plain.last[key]))"
            }
        }
        let most = Dictionary(versions.map { ($0.key, 1) }, uniquingKeysWith: +).values.max() ?? 0
        return most > 3 ? "there are \(most) versions of a record" : nil
    }
}
