import Tree

/// A projected row as a JSON object, as PostgreSQL's `to_jsonb` writes it in UTC.
enum RowJSON {
    static func encode(_ row: ProjectedRow, _ names: [String]) -> [UInt8] {
        var writer = JSONWriter(form: .plain, reserving: 256)
        writer.beginObject()
        for (index, name) in names.enumerated() {
            writer.writeKey(name, isFirst: index == 0)
            write(row.cells[index], &writer)
        }
        writer.endObject()
        return writer.bytes
    }

    private static func write(_ cell: Cell, _ writer: inout JSONWriter) {
        switch cell {
        case .null: writer.raw("null")
        case .bool(let value): writer.write(.bool(value))
        case .int(let value): writer.writeInteger(value)
        case .double(let value): writer.write(.double(value))
        case .text(let text), .uuid(let text): writer.writeString(text)
        case .json(let bytes): writer.append(bytes)
        case .decimal(let text): writer.append(number(text))
        case .day(let day): writer.writeString(day.description)
        case .timestamp(let micros): writer.writeString(time(micros))
        case .texts(let members):
            writer.beginArray()
            for (index, member) in members.enumerated() {
                if index > 0 { writer.raw(",") }
                if let member { writer.writeString(member) } else { writer.raw("null") }
            }
            writer.endArray()
        }
    }

    /// A decimal number as JSON has it: without `+`, and without zeros in front.
    private static func number(_ text: String) -> [UInt8] {
        var rest = Array(text.utf8)[...]
        let isNegative = rest.first == UInt8(ascii: "-")
        if isNegative || rest.first == UInt8(ascii: "+") { rest = rest.dropFirst() }
        while rest.first == UInt8(ascii: "0"), let next = rest.dropFirst().first, next &- 0x30 <= 9 {
            rest = rest.dropFirst()
        }
        return (isNegative ? [UInt8(ascii: "-")] : []) + rest
    }

    /// `2026-01-31T23:59:59.12+00:00`.
    private static func time(_ micros: Int64) -> String {
        var bytes = Array(TimestampText.utf8(unixMicroseconds: micros).dropLast(3))
        bytes[10] = UInt8(ascii: "T")
        // There always is a fraction of six digits.
        while bytes.last == UInt8(ascii: "0") { bytes.removeLast() }
        if bytes.last == UInt8(ascii: ".") { bytes.removeLast() }
        return String(decoding: bytes, as: UTF8.self) + "+00:00"
    }
}
