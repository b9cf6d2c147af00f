import Postgres
import Tree

/// Puts rows into a COPY: in binary, or in text where a column's binary form is not worth the trouble.
enum RowCopier {
    /// Whether a table's COPY is binary: only decimal numbers are text.
    static func isBinary(_ table: MirrorTable) -> Bool {
        !table.definition.columns.contains { $0.type == .numeric }
    }

    static func copy(_ row: ProjectedRow, _ table: MirrorTable, to writer: inout CopyWriter) throws {
        writer.beginRow()
        for (index, key) in row.keys.enumerated() { try copy(key, table.definition.keys[index].type, to: &writer) }
        for cell in row.cells { try copy(cell, to: &writer) }
        writer.appendInt8(row.stamp.seq)
        if let time = row.stamp.committedAt {
            try copy(.timestamp(time * 1_000), to: &writer)
        } else {
            writer.appendNull()
        }
        if row.misfits.isEmpty { writer.appendNull() } else { try copy(.texts(row.misfits), to: &writer) }
        try writer.endRow()
    }

    private static func copy(_ key: Key, _ type: KeyType, to writer: inout CopyWriter) throws {
        switch type {
        case .text: try appendText(key.text, to: &writer)
        case .bigint: writer.appendInt8(Int64(key.text) ?? 0)
        case .uuid: try copy(.uuid(key.text), to: &writer)
        }
    }

    private static func copy(_ cell: Cell, to writer: inout CopyWriter) throws {
        switch cell {
        case .null: writer.appendNull()
        case .bool(let value): writer.appendBool(value)
        case .int(let value): writer.appendInt8(value)
        case .double(let value): writer.appendFloat8(value)
        case .text(let value), .decimal(let value): try appendText(value, to: &writer)
        case .json(let value): try writer.appendJSONB(value)
        case .timestamp(let value):
            if writer.isBinary {
                try writer.appendTimestamp(unixMicroseconds: value)
            } else {
                try writer.appendText(TimestampText.utf8(unixMicroseconds: value))
            }
        case .day(let value):
            if writer.isBinary {
                writer.appendBytea(bigEndian(Int32(truncatingIfNeeded: value.number - daysTo2000)))
            } else {
                try writer.appendText(value.description)
            }
        case .uuid(let value):
            if writer.isBinary { writer.appendBytea(UUIDText.bytes(value)) } else { try writer.appendText(value) }
        case .texts(let value):
            if writer.isBinary {
                writer.appendBytea(array(value))
            } else {
                try writer.appendText(Conversion.arrayLiteral(value))
            }
        }
    }

    /// In place: an array of the bytes costs more than the rest of it.
    private static func appendText(_ text: String, to writer: inout CopyWriter) throws {
        var text = text
        try text.withUTF8 { bytes in try writer.appendText(UnsafeRawBufferPointer(bytes)) }
    }

    /// PostgreSQL counts days from 2000-01-01.
    private static let daysTo2000 = 10_957

    private static func bigEndian(_ value: Int32) -> [UInt8] {
        withUnsafeBytes(of: value.bigEndian) { Array($0) }
    }

    /// A text[] in binary: dimensions, a flag for NULLs, the elements' type, length and lower bound, the elements.
    private static func array(_ members: [String]) -> [UInt8] {
        var bytes = bigEndian(members.isEmpty ? 0 : 1) + bigEndian(0)
        bytes += bigEndian(Int32(truncatingIfNeeded: PostgresType.text.oid))
        guard !members.isEmpty else { return bytes }
        bytes += bigEndian(Int32(clamping: members.count)) + bigEndian(1)
        for member in members {
            bytes += bigEndian(Int32(clamping: member.utf8.count))
            bytes += member.utf8
        }
        return bytes
    }
}

/// Times as COPY's text format has them.
enum TimestampText {
    /// `2026-01-31 23:59:59.123456+00`; years 1 to 9999.
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
