import Postgres
import Tree

/// The destination of a row's cells: the array of a statement's parameter, or a COPY.
protocol CellSink: ~Copyable {
    /// The type of error that writing may throw.
    associatedtype Failure: Error

    mutating func appendNull()
    mutating func appendBool(_ value: Bool)
    mutating func appendInt8(_ value: Int64)
    mutating func appendFloat8(_ value: Double)
    mutating func append(text: String) throws(Failure)
    mutating func append(json: [UInt8]) throws(Failure)
    /// Microseconds since 1970.
    mutating func append(timestamp: Int64) throws(Failure)
    mutating func append(day: CalendarDay) throws(Failure)
    mutating func append(uuid: String) throws(Failure)
    mutating func append(texts: [String?]) throws(Failure)
}

/// Lists the cells of a row, and writes each kind of cell.
enum CellEncoder {
    /// Calls `body` with the cells of a row, in the order of the table's columns: keys, columns, Pathmirror's own.
    @inline(__always)
    static func forEach<Failure: Error>(
        _ row: ProjectedRow, _ table: MirrorTable, _ body: (_ column: Int, _ cell: Cell) throws(Failure) -> Void
    ) throws(Failure) {
        let keys = table.definition.keys
        for (index, key) in row.keys.enumerated() { try body(index, cell(key, keys[index].type)) }
        for (index, cell) in row.cells.enumerated() { try body(keys.count + index, cell) }
        let ours = keys.count + row.cells.count
        try body(ours, .int(row.stamp.seq))
        try body(ours + 1, row.stamp.committedAt.map { .timestamp($0 * 1_000) } ?? .null)
        try body(ours + 2, row.conversionErrors.isEmpty ? .null : .texts(row.conversionErrors))
    }

    /// Returns a key as the cell of its column.
    static func cell(_ key: Key, _ type: KeyType) -> Cell {
        switch type {
        case .text: .text(key.text)
        case .bigint: .int(Int64(key.text) ?? 0)
        case .uuid: .uuid(key.text)
        case .date: ISO8601.day(key.text).map(Cell.day) ?? .null
        }
    }

    /// Writes one cell.
    @inline(__always)
    static func append<Sink: CellSink & ~Copyable>(_ cell: Cell, to sink: inout Sink) throws(Sink.Failure) {
        switch cell {
        case .null: sink.appendNull()
        case .bool(let value): sink.appendBool(value)
        case .int(let value): sink.appendInt8(value)
        case .double(let value): sink.appendFloat8(value)
        case .text(let value), .decimal(let value): try sink.append(text: value)
        case .json(let value): try sink.append(json: value)
        case .timestamp(let value): try sink.append(timestamp: value)
        case .day(let value): try sink.append(day: value)
        case .uuid(let value): try sink.append(uuid: value)
        case .texts(let value): try sink.append(texts: value)
        }
    }
}

/// Writes rows to the arrays of a mirror's statements.
enum RowEncoder {
    static func upsert(_ table: MirrorTable, _ rows: some Collection<ProjectedRow>) -> PostgresParameters {
        var arrays = table.columns.map { PostgresArray(of: $0.carrier) }
        for row in rows {
            CellEncoder.forEach(row, table) { column, cell in CellEncoder.append(cell, to: &arrays[column]) }
        }
        return parameters(arrays)
    }

    /// Returns the parameters of rows that consist of cells in the order of `columns`.
    static func cells(
        _ columns: [MirrorTable.Column], _ rows: some Collection<[Cell]>
    ) throws(MirrorError) -> PostgresParameters {
        var arrays = columns.map { PostgresArray(of: $0.carrier) }
        for row in rows {
            guard row.count == columns.count else {
                throw .refused(
                    "A row has \(row.count) values for \(columns.count) columns: the key of its record can't be read.")
            }
            for (index, cell) in row.enumerated() { CellEncoder.append(cell, to: &arrays[index]) }
        }
        return parameters(arrays)
    }

    /// Returns the parameters of prefixes of keys, all of one length. Prefixes that don't fit a key's type are left out,
    /// because no row can have them.
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

/// Arrays carry values as text if the statement casts them to the column's type.
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
    /// Whether a key can be stored as this type. Only one spelling is accepted, because two keys must not become one row.
    func holds(_ key: Key) -> Bool {
        switch self {
        case .text: true
        case .bigint: Int64(key.text).map(String.init) == key.text
        case .uuid: UUIDText.isUUID(key.text) && key.text == key.text.lowercased()
        case .date: ISO8601.day(key.text) != nil
        }
    }
}

/// Writes rows to a COPY, in binary or, if the binary form of a column would be complicated, in text.
enum RowCopier {
    /// Whether a table's COPY is binary. Decimal numbers require text.
    static func isBinary(_ table: MirrorTable) -> Bool {
        !table.definition.columns.contains { $0.type == .numeric }
    }

    static func copy(_ row: ProjectedRow, _ table: MirrorTable, to writer: inout CopyWriter) throws(PostgresError) {
        writer.beginRow()
        try CellEncoder.forEach(row, table) { (_, cell) throws(PostgresError) in
            try CellEncoder.append(cell, to: &writer)
        }
        try writer.endRow()
    }

    /// Copies a row that consists of cells.
    static func copy(_ cells: [Cell], to writer: inout CopyWriter) throws(PostgresError) {
        writer.beginRow()
        for cell in cells { try CellEncoder.append(cell, to: &writer) }
        try writer.endRow()
    }
}

/// A COPY takes values in the form of its columns' types, in binary or in text.
extension CopyWriter: CellSink {
    typealias Failure = PostgresError

    mutating func append(text: String) throws(PostgresError) { try appendText(text) }

    mutating func append(json: [UInt8]) throws(PostgresError) { try appendJSONB(json) }

    mutating func append(timestamp: Int64) throws(PostgresError) {
        if isBinary {
            try appendTimestamp(unixMicroseconds: timestamp)
        } else {
            try appendText(TimestampText.utf8(unixMicroseconds: timestamp))
        }
    }

    mutating func append(day: CalendarDay) throws(PostgresError) {
        if isBinary { appendDate(unixDays: day.number) } else { try appendText(day.description) }
    }

    mutating func append(uuid: String) throws(PostgresError) {
        if isBinary { appendBytea(UUIDText.bytes(uuid)) } else { try appendText(uuid) }
    }

    mutating func append(texts: [String?]) throws(PostgresError) {
        guard isBinary else { return try appendText(Conversion.arrayLiteral(texts)) }
        var array = PostgresArray(of: .text)
        for text in texts {
            if let text { array.appendText(text) } else { array.appendNull() }
        }
        try append(array)
    }
}

/// Times in COPY's text format.
enum TimestampText {
    /// Returns a time such as `2026-01-31 23:59:59.123456+00`, for the years 1 to 9999.
    static func utf8(unixMicroseconds micros: Int64) -> [UInt8] {
        let dayMicros: Int64 = 86_400_000_000
        var days = micros / dayMicros
        var rest = micros % dayMicros
        if rest < 0 {
            rest += dayMicros
            days -= 1
        }
        let day = CalendarDay(milliseconds: days * 86_400_000)
        var text: [UInt8] = []
        text.reserveCapacity(32)
        digits(day.year, 4, &text)
        text.append(UInt8(ascii: "-"))
        digits(day.month, 2, &text)
        text.append(UInt8(ascii: "-"))
        digits(day.day, 2, &text)
        text.append(UInt8(ascii: " "))
        let seconds = Int(rest / 1_000_000)
        digits(seconds / 3_600, 2, &text)
        text.append(UInt8(ascii: ":"))
        digits(seconds / 60 % 60, 2, &text)
        text.append(UInt8(ascii: ":"))
        digits(seconds % 60, 2, &text)
        text.append(UInt8(ascii: "."))
        digits(Int(rest % 1_000_000), 6, &text)
        text.append(contentsOf: "+00".utf8)
        return text
    }

    private static func digits(_ value: Int, _ width: Int, _ text: inout [UInt8]) {
        var divisor = 1
        for _ in 1..<width { divisor *= 10 }
        var rest = value
        while divisor > 0 {
            text.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest / divisor))
            rest %= divisor
            divisor /= 10
        }
    }
}
