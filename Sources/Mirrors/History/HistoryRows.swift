import LogStore
import Tree

/// Creates the rows of a table with a history from the versions of one record after another, oldest first.
///
/// A version whose row equals the one before creates none. Call `begin` for a record, `take` for each version, then `end`.
/// Changes of the table accumulate until `drain`.
struct HistoryRows {
    /// The pending changes of the table.
    struct Work {
        /// Rows to write, in the order of the table's columns.
        var rows: [[Cell]] = []
        /// The record and entry of each row, for errors if the table rejects it.
        var versions: [(keys: [Key], seq: Int64)] = []
        /// Removed records whose rows stay.
        var marked: [(keys: [Key], seq: Int64, at: Int64?)] = []
        /// In a table with the last row of each record: the records that have changed, whose errors `errors` replaces.
        var changed: [[Key]] = []
        /// The changed records that had no row before either, and the columns that `errors` covers. If the table still has a
        /// row of such a record, its other errors are found with the version that created it.
        var rowless: [(keys: [Key], columns: Set<String>)] = []
        var errors: [ConversionError] = []

        var isEmpty: Bool { rows.isEmpty && marked.isEmpty && changed.isEmpty }
    }

    private let definition: MirrorDefinition
    private let projector: Projector
    private let names: [String]
    private(set) var work = Work()
    /// The approximate size of the texts in pending rows, in bytes.
    private(set) var byteCount = 0

    private var keys: [Key] = []
    /// The row of the record's previous version.
    private var row: ProjectedRow?
    /// The record's last row, in a table that keeps it.
    private var open: [Cell]?
    private var openSeq: Int64 = 0
    /// The removal of the record, in a table that keeps its row.
    private var goneAt: (seq: Int64, at: Int64?)?
    private var hasChanged = false
    /// The conversion errors of the version that created the open row.
    private var rowErrors: [ConversionError] = []
    /// The conversion errors that prevent a row of the newest version.
    private var errors: [ConversionError] = []
    /// Whether the newest version has no row because of its size. That error is recorded when the version is stored.
    private var isTooLarge = false
    /// Whether the table may have a row of the record.
    private var mayHaveRow = false
    /// The newest version with a row, or nil. A table with the last row of each record does not need older versions.
    private(set) var lastRowSeq: Int64?

    init(_ projector: Projector) {
        self.projector = projector
        definition = projector.definition
        names = definition.columns.map(\.name) + (definition.rest.map { [$0.name] } ?? [])
    }

    /// Begins a record with its earlier value, or nil if that was too large to be stored.
    ///
    /// - Parameter isFirst: whether there was no version of the record before, and thus no row.
    mutating func begin(_ keys: [Key], before: Node?, isFirst: Bool) {
        self.keys = keys
        row = project(before, EntryStamp(seq: 0, at: nil, author: nil)).row
        mayHaveRow = !isFirst
        open = nil
        goneAt = nil
        hasChanged = false
        rowErrors = []
        errors = []
        isTooLarge = false
        lastRowSeq = nil
    }

    /// Adds the record's next version.
    mutating func take(_ version: RecordVersion) {
        let old = row
        let (new, found) = project(version.value, version.stamp)
        row = new
        let stamp = version.stamp
        switch definition.keeps {
        case .changes:
            if !Self.isSame(old, new) { put(change(stamp, old, new), stamp.seq) }
        case .latest:
            hasChanged = true
            errors = new == nil ? found : []
            isTooLarge = version.value == nil
            if let new {
                open = latest(new)
                rowErrors = found
                openSeq = stamp.seq
                lastRowSeq = stamp.seq
                goneAt = nil
            } else if old != nil {
                goneAt = (stamp.seq, stamp.at)
            }
        case nil: break
        }
    }

    /// Adds the next of all stored versions, which are grouped by record. `endLast` must follow the last one.
    mutating func follow(_ stored: MirrorVersionRecord) throws {
        // Compares keys rather than texts. Swift's strings treat two spellings of é as equal.
        let next = RecordKey.keys(stored.key)
        if next != keys {
            endLast()
            begin(next, before: .null, isFirst: true)
        }
        take(try RecordVersion(stored))
    }

    /// Ends the last record that was passed to `follow`.
    mutating func endLast() { if !keys.isEmpty { end() } }

    /// Ends the record.
    mutating func end() { if definition.keeps == .latest { endLatest() } }

    /// Returns the pending changes and clears them. The last row of a record that has not ended is kept.
    mutating func drain() -> Work {
        let done = work
        work = Work()
        byteCount = 0
        return done
    }

    // MARK: Rows

    private func project(_ value: Node?, _ stamp: EntryStamp) -> (row: ProjectedRow?, errors: [ConversionError]) {
        guard let value else { return (nil, []) }
        var errors: [ConversionError] = []
        let row = projector.row(
            value, keys: keys, stamp: Stamp(seq: stamp.seq, committedAt: stamp.at), conversionErrors: &errors)
        return (row, errors)
    }

    private static func isSame(_ one: ProjectedRow?, _ other: ProjectedRow?) -> Bool {
        one?.cells == other?.cells && one?.conversionErrors == other?.conversionErrors
    }

    private mutating func put(_ cells: [Cell], _ seq: Int64) {
        for cell in cells {
            switch cell {
            case .text(let text): byteCount += text.utf8.count
            case .json(let bytes): byteCount += bytes.count
            default: break
            }
        }
        work.rows.append(cells)
        work.versions.append((keys, seq))
    }

    private var keyCells: [Cell] { zip(keys, definition.keys).map { CellEncoder.cell($0, $1.type) } }

    static func time(_ at: Int64?) -> Cell { at.map { .timestamp($0 * 1_000) } ?? .null }

    private static func author(_ author: MirrorAuthor?) -> [Cell] {
        [
            author?.uid.map { .text($0) } ?? .null, author.map { .bool($0.isAdmin) } ?? .null,
            author?.via.map { .text($0) } ?? .null,
        ]
    }

    private static func conversionErrors(_ row: ProjectedRow?) -> Cell {
        guard let row, !row.conversionErrors.isEmpty else { return .null }
        return .texts(row.conversionErrors)
    }

    private func change(_ stamp: EntryStamp, _ old: ProjectedRow?, _ new: ProjectedRow?) -> [Cell] {
        // A record that is missing when a history begins again counts as deleted, so that a reader of deletions finds it.
        let operation = new == nil ? "delete" : stamp.isBegin ? "begin" : old == nil ? "insert" : "update"
        return keyCells + [.int(stamp.seq), Self.time(stamp.at), .text(operation)] + Self.author(stamp.author) + [
            old.map { .json(RowJSON.encode($0, names)) } ?? .null,
            new.map { .json(RowJSON.encode($0, names)) } ?? .null, Self.conversionErrors(new),
        ]
    }

    private func latest(_ row: ProjectedRow) -> [Cell] {
        keyCells + row.cells + [
            .int(row.stamp.seq), Self.time(row.stamp.committedAt), Self.conversionErrors(row), .null,
        ]
    }

    /// Notes the record's errors. The errors of a row that stays are kept, as they explain its missing values.
    private mutating func noteErrors() {
        let found = Set(errors.map(\.column))
        if open != nil || (goneAt == nil && !isTooLarge) {
            work.changed.append(keys)
            if open == nil, mayHaveRow { work.rowless.append((keys, found)) }
        }
        work.errors += rowErrors.filter { !found.contains($0.column) } + errors
    }

    private mutating func endLatest() {
        defer { open = nil }
        guard hasChanged else { return }
        noteErrors()
        guard var open else {
            if let goneAt { work.marked.append((keys, goneAt.seq, goneAt.at)) }
            return
        }
        if let goneAt {
            let seq = definition.keys.count + names.count
            open[seq] = .int(goneAt.seq)
            open[seq + 1] = Self.time(goneAt.at)
            open[seq + 3] = Self.time(goneAt.at)
        }
        put(open, openSeq)
    }
}

/// Writes a projected row as a JSON object, like PostgreSQL's `to_jsonb` in UTC.
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

    /// Returns a decimal number in JSON syntax: without `+` and leading zeros.
    private static func number(_ text: String) -> [UInt8] {
        var rest = Array(text.utf8)[...]
        let isNegative = rest.first == UInt8(ascii: "-")
        if isNegative || rest.first == UInt8(ascii: "+") { rest = rest.dropFirst() }
        while rest.first == UInt8(ascii: "0"), let next = rest.dropFirst().first, next &- 0x30 <= 9 {
            rest = rest.dropFirst()
        }
        return (isNegative ? [UInt8(ascii: "-")] : []) + rest
    }

    /// Returns a time such as `2026-01-31T23:59:59.12+00:00`.
    private static func time(_ micros: Int64) -> String {
        var bytes = Array(TimestampText.utf8(unixMicroseconds: micros).dropLast(3))
        bytes[10] = UInt8(ascii: "T")
        // The text always has six fractional digits.
        while bytes.last == UInt8(ascii: "0") { bytes.removeLast() }
        if bytes.last == UInt8(ascii: ".") { bytes.removeLast() }
        return String(decoding: bytes, as: UTF8.self) + "+00:00"
    }
}
