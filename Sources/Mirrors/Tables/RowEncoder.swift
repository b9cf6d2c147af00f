import Postgres
import Tree

/// Puts rows into the arrays of a mirror's statements, and into COPY.
enum RowEncoder {
    static func upsert(_ table: MirrorTable, _ rows: some Collection<ProjectedRow>) -> PostgresParameters {
        var arrays = table.columns.map { PostgresArray(of: $0.carrier) }
        let keyCount = table.definition.keys.count
        for row in rows {
            for (index, key) in row.keys.enumerated() { append(key, table.columns[index], to: &arrays[index]) }
            for (index, cell) in row.cells.enumerated() { append(cell, to: &arrays[keyCount + index]) }
            let ours = keyCount + row.cells.count
            arrays[ours].appendInt8(row.stamp.seq)
            if let time = row.stamp.committedAt {
                arrays[ours + 1].appendTimestamp(unixMicroseconds: time * 1_000)
            } else {
                arrays[ours + 1].appendNull()
            }
            if row.misfits.isEmpty {
                arrays[ours + 2].appendNull()
            } else {
                arrays[ours + 2].appendText(Conversion.arrayLiteral(row.misfits))
            }
        }
        return parameters(arrays)
    }

    /// Beginnings of keys, all of one length. Those that no row can have, as they don't fit a key's type, are left out.
    static func keys(_ table: MirrorTable, _ keys: [[Key]]) -> PostgresParameters {
        guard let count = keys.first?.count, count > 0 else { return [] }
        var arrays = table.columns.prefix(count).map { PostgresArray(of: $0.carrier) }
        for key in keys where zip(key, table.definition.keys).allSatisfy({ $1.type.holds($0) }) {
            for index in 0..<count { append(key[index], table.columns[index], to: &arrays[index]) }
        }
        return parameters(arrays)
    }

    private static func parameters(_ arrays: [PostgresArray]) -> PostgresParameters {
        var parameters = PostgresParameters()
        for array in arrays { parameters.append(array) }
        return parameters
    }

    private static func append(_ key: Key, _ column: MirrorTable.Column, to array: inout PostgresArray) {
        if column.carrier == .int8 {
            array.appendInt8(Int64(key.text) ?? 0)
        } else {
            array.appendText(key.text)
        }
    }

    private static func append(_ cell: Cell, to array: inout PostgresArray) {
        switch cell {
        case .null: array.appendNull()
        case .bool(let value): array.appendBool(value)
        case .int(let value): array.appendInt8(value)
        case .double(let value): array.appendFloat8(value)
        case .text(let value), .decimal(let value), .uuid(let value): array.appendText(value)
        case .day(let value): array.appendText(value.description)
        case .texts(let value): array.appendText(Conversion.arrayLiteral(value))
        case .timestamp(let value): array.appendTimestamp(unixMicroseconds: value)
        case .json(let value): value.withUnsafeBytes { array.appendJSONB($0) }
        }
    }
}

extension KeyType {
    /// Whether a key can be stored as this type. One spelling only, as two keys must not become one row.
    func holds(_ key: Key) -> Bool {
        switch self {
        case .text: true
        case .bigint: Int64(key.text).map(String.init) == key.text
        case .uuid: UUIDText.isUUID(key.text) && key.text == key.text.lowercased()
        }
    }
}
