import LogStore
import Postgres

/// The rows of a mirror's table as a file has them.
public struct MirrorExport: Sendable {
    /// How a row is written; each ends with a line feed.
    public enum Format: String, Sendable, CaseIterable {
        /// A line of names first. NULL is nothing, an empty text `""`.
        case csv
        /// An object a line: numbers with all their digits, `jsonb` as it is, arrays as arrays.
        case jsonl
    }

    /// What was written.
    public struct Outcome: Sendable, Equatable {
        public let rowCount: Int
        /// The newest entry of the log that the table had.
        public let seq: Int64
    }

    private let format: Format
    private let since: Int64?

    /// - Parameter since: only rows that this entry or a later one wrote. A repair may write rows after other rows of the newest entry were read.
    public init(_ format: Format, since: Int64?) {
        self.format = format
        self.since = since
    }

    /// Runs it in a transaction of its own, which sees the table as of one entry.
    func run(
        _ mirror: CatalogMirror, _ target: PostgresConnection,
        _ write: (_ bytes: [UInt8], _ rowCount: Int) throws -> Void
    ) throws -> Outcome {
        let (table, seq) = try begun(mirror, target)
        try target.executeScript(
            "set local timezone to 'UTC'; set local datestyle to 'ISO'; set local extra_float_digits to 1")
        // PostgreSQL sends the names as a row of its own.
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

    /// Begins a transaction. Returns the table, which no rebuild puts another one in the place of meanwhile, and how far it has come.
    /// What the transaction sees is chosen after the lock: before, it might be the time when a new table was still empty.
    private func begun(_ mirror: CatalogMirror, _ target: PostgresConnection) throws -> (MirrorTable, seq: Int64) {
        for _ in 0..<Self.attempts {
            // Where the table is says the cursor, which changes with it.
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
        throw MirrorError.refused("The mirror \"\(mirror.name)\" has no table yet, or is being moved to another one.")
    }

    private static let attempts = 5

    private func copy(_ table: MirrorTable) -> String {
        let columns = MirrorTable.list(table.columns.map(\.name))
        let condition = since.map { " where \(quotedIdentifier(MirrorDefinition.seqColumn)) >= \($0)" } ?? ""
        let rows = "select \(columns) from \(table.qualifiedName)\(condition)"
        return switch format {
        case .csv: "copy (\(rows)) to stdout (format csv, header)"
        // JSON has neither of these bytes as they are, nor line feeds: nothing is ever quoted.
        case .jsonl:
            "copy (select row_to_json(live) from (\(rows)) as live) to stdout (format csv, quote e'\\x01', delimiter e'\\x02')"
        }
    }
}

extension MirrorAdministration {
    /// Writes the rows of a mirror's table, as of one entry of the log, in no particular order. Memory stays bounded.
    ///
    /// - Parameter write: takes whole lines, and how many rows there have been.
    public func export(
        _ mirror: CatalogMirror, _ export: MirrorExport, write: (_ bytes: [UInt8], _ rowCount: Int) throws -> Void
    ) throws -> MirrorExport.Outcome {
        let target = try connect(mirror)
        defer { target.close() }
        return try export.run(mirror, target, write)
    }
}
