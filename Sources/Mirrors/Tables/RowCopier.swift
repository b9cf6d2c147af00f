import Postgres

/// Puts rows into a COPY: in binary, or in text where a column's binary form is not worth the trouble.
enum RowCopier {
    /// Whether a table's COPY is binary: only decimal numbers are text.
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

    /// A row that is cells already.
    static func copy(_ cells: [Cell], to writer: inout CopyWriter) throws(PostgresError) {
        writer.beginRow()
        for cell in cells { try CellEncoder.append(cell, to: &writer) }
        try writer.endRow()
    }
}

/// A COPY takes values as its columns' types have them, in binary or in text.
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
