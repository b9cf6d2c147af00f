import LogStore
import Postgres

/// The rows of a mirror's table in the format of a file.
public struct MirrorExport: Sendable {
    /// The format of a row. Each row ends with a line feed.
    public enum Format: String, Sendable, CaseIterable {
        /// With a header line. NULL is written as nothing, an empty text as `""`.
        case csv
        /// One object per line: numbers with all their digits, `jsonb` unchanged, arrays as arrays.
        case jsonl
    }

    /// The result of an export.
    public struct Outcome: Sendable, Equatable {
        public let rowCount: Int
        /// The log position of the table.
        public let seq: Int64
    }

    private let format: Format
    private let since: Int64?

    /// - Parameter since: limits the export to rows with at least this `_seq`. A repair may write rows after other rows of the
    ///   newest entry were read.
    public init(_ format: Format, since: Int64?) {
        self.format = format
        self.since = since
    }

    /// Runs the export in a transaction of its own, which sees the table at one log position.
    func run(
        _ mirror: CatalogMirror, _ target: PostgresConnection,
        _ write: (_ bytes: [UInt8], _ rowCount: Int) throws -> Void
    ) throws -> Outcome {
        let (table, seq) = try begun(mirror, target)
        try target.executeScript(
            "set local timezone to 'UTC'; set local datestyle to 'ISO'; set local extra_float_digits to 1")
        // PostgreSQL sends the header as a row of its own.
        var rowCount = format == .csv ? -1 : 0
        var buffer: [UInt8] = []
        try target.copyOut(copy(table)) { row in
            buffer.append(contentsOf: row)
            rowCount += 1
            guard buffer.count >= Self.bytesAtOnce else { return }
            try write(buffer, max(0, rowCount))
            buffer.removeAll(keepingCapacity: true)
        }
        if !buffer.isEmpty { try write(buffer, max(0, rowCount)) }
        try target.executeScript("commit")
        return Outcome(rowCount: max(0, rowCount), seq: seq)
    }

    private static let bytesAtOnce = 1 << 16

    /// Begins a transaction. Returns the table, which no rebuild can replace until the transaction ends, and its log position.
    /// The lock comes before the transaction's snapshot, which otherwise might be of a time when a new table was still empty.
    private func begun(_ mirror: CatalogMirror, _ target: PostgresConnection) throws -> (MirrorTable, seq: Int64) {
        for _ in 0..<Self.attempts {
            // The cursor names the table, and changes together with it.
            guard let before = try MirrorCursor.of(mirror, target) else { break }
            let table = MirrorTable(before.definition, name: before.definition.table, label: "")
            try target.executeScript("begin isolation level repeatable read read only")
            try target.executeScript("lock table \(table.qualifiedName) in access share mode")
            if let cursor = try MirrorCursor.of(mirror, target),
                case let found = MirrorTable(cursor.definition, name: cursor.definition.table, label: ""),
                found.qualifiedName == table.qualifiedName
            {
                return (found, cursor.seq)
            }
            try target.executeScript("rollback")
        }
        throw MirrorError.refused(
            "The mirror \"\(mirror.name)\" has no table yet, or its table is being replaced: try again later.")
    }

    private static let attempts = 5

    private func copy(_ table: MirrorTable) -> String {
        let columns = MirrorTable.list(table.columns.map(\.name))
        let condition = since.map { " where \(quotedIdentifier(MirrorDefinition.seqColumn)) >= \($0)" } ?? ""
        let rows = "select \(columns) from \(table.qualifiedName)\(condition)"
        return switch format {
        case .csv: "copy (\(rows)) to stdout (format csv, header)"
        // JSON never contains these bytes or line feeds unescaped, so CSV quotes nothing.
        case .jsonl:
            "copy (select row_to_json(live) from (\(rows)) as live) to stdout (format csv, quote e'\\x01', delimiter e'\\x02')"
        }
    }
}

extension MirrorAdministration {
    /// Writes the rows of a mirror's table, at one log position, in no particular order. Memory use is bounded.
    ///
    /// - Parameter write: gets complete lines, and the number of rows so far.
    public func export(
        _ mirror: CatalogMirror, _ export: MirrorExport, write: (_ bytes: [UInt8], _ rowCount: Int) throws -> Void
    ) throws -> MirrorExport.Outcome {
        let target = try connect(mirror)
        defer { target.close() }
        return try export.run(mirror, target, write)
    }
}
