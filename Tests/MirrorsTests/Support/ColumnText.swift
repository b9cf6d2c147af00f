import Mirrors
import Postgres
import Tree

/// Expressions that give mirrors' columns as texts, in the form of `PlainProjection`.
enum ColumnText {
    private static func columns(_ definition: MirrorDefinition) -> [(name: String, type: ColumnType)] {
        definition.columns.map { ($0.name, $0.type) } + (definition.rest.map { [($0.name, .jsonb)] } ?? [])
    }

    /// Expressions for the columns of a table, and for conversion errors.
    static func ofTable(_ definition: MirrorDefinition) -> [String] {
        columns(definition).map { name, type in
            let column = quotedIdentifier(name)
            return switch type {
            case .timestamp: "(extract(epoch from \(column)) * 1000000)::bigint::text"
            case .textArray: "array_to_string(\(column), chr(1), chr(2))"
            default: "\(column)::text"
            }
        } + ["array_to_string(_misfits, chr(1))"]
    }

    /// Expressions for the members of rows stored as JSON in a column, and for conversion errors.
    static func ofJSON(_ column: String, _ definition: MirrorDefinition) -> [String] {
        columns(definition).map { name, type in
            let member = "(\(column) -> '\(name)')"
            let text = "(\(column) ->> '\(name)')"
            return switch type {
            case .timestamp: "(extract(epoch from \(text)::timestamptz) * 1000000)::bigint::text"
            case .textArray:
                """
                case when jsonb_typeof\(member) = 'array' then coalesce((
                    select string_agg(coalesce(element, chr(2)), chr(1) order by n)
                    from jsonb_array_elements_text\(member) with ordinality as elements (element, n)), '') end
                """
            case .jsonb: "nullif(\(member), 'null')::text"
            default: text
            }
        } + ["array_to_string(_misfits, chr(1))"]
    }

    /// Returns a row that such expressions have read.
    static func row(
        _ definition: MirrorDefinition, _ rows: PostgresResult, _ index: Int, from position: Int
    ) throws -> PlainProjection.Row {
        var row = PlainProjection.Row()
        let columns = columns(definition)
        for (offset, column) in columns.enumerated() {
            let text = rows.isNull(index, position + offset) ? nil : try rows.string(index, position + offset)
            row.columns.append(text.map { canonical($0, column.type) })
        }
        let last = position + columns.count
        if !rows.isNull(index, last) {
            row.conversionErrors = Set(try rows.string(index, last).split(separator: "\u{1}").map(String.init))
        }
        return row
    }

    private static func canonical(_ text: String, _ type: ColumnType) -> String {
        switch type {
        case .double, .numeric: Double(text).map(PlainProjection.number) ?? text
        case .jsonb: PlainProjection.canonicalJSON(text)
        default: text
        }
    }
}
