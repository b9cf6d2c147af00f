import Postgres
import Tree

/// What the cells of rows are written into: the array that a statement's parameter carries, or a COPY.
protocol CellSink: ~Copyable {
    /// What writing may throw.
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

/// Which cells a row has, and how each kind is written.
enum CellEncoder {
    /// Gives `body` the cells of a row, in the order of the table's columns: keys, columns, then ours.
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
        try body(ours + 2, row.misfits.isEmpty ? .null : .texts(row.misfits))
    }

    /// A key as the cell of its column.
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
