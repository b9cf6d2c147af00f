import LogStore
import Mirrors
import Postgres
import TestSupport
import Tree

/// What a mirror's table does hold, and the tree as the log says it was at the mirror's cursor: one consistent read.
struct StoredProjection {
    let definition: MirrorDefinition
    let seq: Int64
    var rows: [[Key]: PlainProjection.Row] = [:]
    var errors: Set<[Key]> = []
    let root: Node

    init?(_ log: LogConnection, _ mirror: CatalogMirror) throws {
        try log.sql.executeScript(
            "begin isolation level repeatable read read only; set local timezone = 'UTC'")
        defer { try? log.sql.executeScript("rollback") }
        guard let cursor = try MirrorCursor.of([mirror.id], in: mirror.namespaceID, log.sql).first else {
            return nil
        }
        definition = cursor.definition
        seq = cursor.seq
        root = try Self.tree(log, mirror.namespaceID, at: seq)
        try readRows(log.sql)
        let found = try log.sql.execute(
            "select record, column_name from pathmirror.mirror_error where mirror = $1 and generation = $2",
            [.uuid(mirror.id), .int8(cursor.generation)])
        for row in 0..<found.rowCount { errors.insert([Key(try found.string(row, 0)), Key(try found.string(row, 1))]) }
    }

    private static func tree(_ log: LogConnection, _ namespace: Int64, at seq: Int64) throws -> Node {
        var root = Node.null
        var last: Int64 = 0
        while last < seq {
            let page = try log.read(namespace, after: last, through: seq)
            guard let newest = page.last?.entry.seq else { break }
            for logged in page {
                for change in logged.entry.changes { root = root.replacing(change.path, with: change.value) }
                guard logged.entry.isBulk else { continue }
                try log.forEachPart(namespace, of: logged.entry.seq) { (changes) throws(LogStoreError) in
                    for change in changes { root = root.replacing(change.path, with: change.value) }
                }
            }
            last = newest
        }
        return root
    }

    private mutating func readRows(_ connection: PostgresConnection) throws {
        let columns =
            definition.columns.map { ($0.name, $0.type) } + (definition.rest.map { [($0.name, .jsonb)] } ?? [])
        let expressions =
            definition.keys.map { "\(quotedIdentifier($0.name))::text" }
            + columns.map { name, type in
                let column = quotedIdentifier(name)
                return switch type {
                case .timestamp: "(extract(epoch from \(column)) * 1000000)::bigint::text"
                case .textArray: "array_to_string(\(column), chr(1))"
                default: "\(column)::text"
                }
            } + ["array_to_string(_misfits, chr(1))"]
        let rows = try connection.execute(
            """
            select \(expressions.joined(separator: ", "))
            from \(quotedIdentifier(definition.schema)).\(quotedIdentifier(definition.table))
            """)
        for index in 0..<rows.rowCount {
            let keys = try definition.keys.indices.map { Key(try rows.string(index, $0)) }
            var row = PlainProjection.Row()
            for (place, column) in columns.enumerated() {
                let position = keys.count + place
                let text = rows.isNull(index, position) ? nil : try rows.string(index, position)
                row.columns.append(text.map { Self.canonical($0, column.1) })
            }
            let last = keys.count + columns.count
            if !rows.isNull(index, last) {
                row.misfits = Set(try rows.string(index, last).split(separator: "\u{1}").map(String.init))
            }
            self.rows[keys] = row
        }
    }

    private static func canonical(_ text: String, _ type: ColumnType) -> String {
        switch type {
        case .double, .numeric: Double(text).map(PlainProjection.number) ?? text
        case .jsonb: PlainProjection.canonicalJSON(text)
        default: text
        }
    }

    /// Why the table is not what it should be; nil when it is.
    var difference: String? {
        let wanted = PlainProjection(definition, root)
        let place = "mirror \(definition.name) (\(definition.pattern)) at seq \(seq)"
        for (keys, row) in wanted.rows {
            guard let found = rows[keys] else { return "\(place): no row \(keys), wanted \(row)" }
            if found != row { return "\(place): row \(keys) is \(found), wanted \(row)" }
        }
        for keys in rows.keys where wanted.rows[keys] == nil { return "\(place): row \(keys) should not be there" }
        if errors != wanted.errors {
            return "\(place): errors differ: \(errors.symmetricDifference(wanted.errors))"
        }
        return nil
    }
}
