import Postgres
import Tree

/// Puts rows into the arrays of a mirror's statements.
enum RowEncoder {
    static func upsert(_ table: MirrorTable, _ rows: some Collection<ProjectedRow>) -> PostgresParameters {
        var arrays = table.columns.map { PostgresArray(of: $0.carrier) }
        for row in rows {
            CellEncoder.forEach(row, table) { column, cell in CellEncoder.append(cell, to: &arrays[column]) }
        }
        return parameters(arrays)
    }

    /// Rows that are cells already, in the order of some columns.
    static func cells(
        _ columns: [MirrorTable.Column], _ rows: some Collection<[Cell]>
    ) throws(MirrorError) -> PostgresParameters {
        var arrays = columns.map { PostgresArray(of: $0.carrier) }
        for row in rows {
            guard row.count == columns.count else {
                throw .refused(
                    "A row has \(row.count) values for \(columns.count) columns: its record's key can't be read.")
            }
            for (index, cell) in row.enumerated() { CellEncoder.append(cell, to: &arrays[index]) }
        }
        return parameters(arrays)
    }

    /// Beginnings of keys, all of one length. Those that no row can have, as they don't fit a key's type, are left out.
    static func keys(_ table: MirrorTable, _ keys: [[Key]]) -> PostgresParameters {
        guard let count = keys.first?.count, count > 0 else { return PostgresParameters() }
        var arrays = table.columns.prefix(count).map { PostgresArray(of: $0.carrier) }
        let types = table.definition.keys.map(\.type)
        for key in keys where zip(key, types).allSatisfy({ $1.holds($0) }) {
            for index in 0..<count {
                CellEncoder.append(CellEncoder.cell(key[index], types[index]), to: &arrays[index])
            }
        }
        return parameters(arrays)
    }

    private static func parameters(_ arrays: [PostgresArray]) -> PostgresParameters {
        var parameters = PostgresParameters()
        for array in arrays { parameters.append(array) }
        return parameters
    }
}

/// Arrays carry as text what the statement casts to the column's type.
extension PostgresArray: CellSink {
    typealias Failure = Never

    mutating func append(text: String) { appendText(text) }
    mutating func append(json: [UInt8]) { json.withUnsafeBytes { appendJSONB($0) } }
    mutating func append(timestamp: Int64) { appendTimestamp(unixMicroseconds: timestamp) }
    mutating func append(day: CalendarDay) { appendText(day.description) }
    mutating func append(uuid: String) { appendText(uuid) }
    mutating func append(texts: [String?]) { appendText(Conversion.arrayLiteral(texts)) }
}

extension KeyType {
    /// Whether a key can be stored as this type. One spelling only, as two keys must not become one row.
    func holds(_ key: Key) -> Bool {
        switch self {
        case .text: true
        case .bigint: Int64(key.text).map(String.init) == key.text
        case .uuid: UUIDText.isUUID(key.text) && key.text == key.text.lowercased()
        case .date: ISO8601.day(key.text) != nil
        }
    }
}
