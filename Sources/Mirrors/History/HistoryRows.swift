import LogStore
import Tree

/// Makes the rows of a table that keeps what its records were, of one record's versions after another's, oldest first.
///
/// A version whose row is like the one before makes none. `begin` a record, `take` its versions, `end` it; what has to be
/// done to the table gathers until `drain`.
struct HistoryRows {
    /// What has to be done to the table.
    struct Work {
        /// Rows to be put there, in the order of the table's columns.
        var rows: [[Cell]] = []
        /// Where each row's record is, for what the table refuses.
        var places: [(keys: [Key], seq: Int64)] = []
        /// Records that are gone and whose rows stay.
        var marked: [(keys: [Key], seq: Int64, at: Int64?)] = []
        /// Of a table that keeps the last row of each record, the records that have changed, whose errors are these now.
        var changed: [[Key]] = []
        /// Those of them that had no row before either, and the columns of which `errors` say something: what the row lacks that
        /// stays of them, if one does, is to be found with the version that made it.
        var rowless: [(keys: [Key], columns: Set<String>)] = []
        var errors: [ConversionError] = []

        var isEmpty: Bool { rows.isEmpty && marked.isEmpty && changed.isEmpty }
    }

    private let definition: MirrorDefinition
    private let projector: Projector
    private let names: [String]
    private(set) var work = Work()
    /// About what the texts in the rows weigh that wait.
    private(set) var byteCount = 0

    private var keys: [Key] = []
    /// The record's row by the version before.
    private var row: ProjectedRow?
    /// The last row of the record, of a table in which that stays.
    private var open: [Cell]?
    private var openSeq: Int64 = 0
    /// When the record went, of a table in which its row stays.
    private var goneAt: (seq: Int64, at: Int64?)?
    private var hasChanged = false
    /// What did not fit of the version of the row that is open.
    private var rowErrors: [ConversionError] = []
    /// What keeps the newest version from making a row.
    private var errors: [ConversionError] = []
    /// That is its size, which is recorded as it is stored.
    private var isTooLarge = false
    /// The table may have a row of the record.
    private var mayHaveRow = false
    /// Whether some version made a row: then older ones are not needed for a table that keeps the last one.
    private(set) var lastRowSeq: Int64?

    init(_ projector: Projector) {
        self.projector = projector
        definition = projector.definition
        names = definition.columns.map(\.name) + (definition.rest.map { [$0.name] } ?? [])
    }

    /// Begins with a record and what it was before; nil where it was too large to be kept.
    ///
    /// - Parameter isFirst: there was no version of it before, and thus is no row.
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

    /// The record's next version.
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

    /// The next of all versions that there are, each record's together. `endLast` comes behind them.
    mutating func follow(_ stored: MirrorVersionRecord) throws {
        // Not as texts, to which two spellings of é are one.
        let next = RecordKey.keys(stored.key)
        if next != keys {
            endLast()
            begin(next, before: .null, isFirst: true)
        }
        take(try RecordVersion(stored))
    }

    /// Ends the last record that `follow` came to.
    mutating func endLast() { if !keys.isEmpty { end() } }

    /// Ends the record.
    mutating func end() { if definition.keeps == .latest { endLatest() } }

    /// What there is to be done, which is forgotten here. The last row of a record that has not ended stays.
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
            value, keys: keys, stamp: Stamp(seq: stamp.seq, committedAt: stamp.at), misfits: &errors)
        return (row, errors)
    }

    private static func isSame(_ one: ProjectedRow?, _ other: ProjectedRow?) -> Bool {
        one?.cells == other?.cells && one?.misfits == other?.misfits
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
        work.places.append((keys, seq))
    }

    private var keyCells: [Cell] { zip(keys, definition.keys).map { CellEncoder.cell($0, $1.type) } }

    static func time(_ at: Int64?) -> Cell { at.map { .timestamp($0 * 1_000) } ?? .null }

    private static func author(_ author: MirrorAuthor?) -> [Cell] {
        [
            author?.uid.map { .text($0) } ?? .null, author.map { .bool($0.isAdmin) } ?? .null,
            author?.via.map { .text($0) } ?? .null,
        ]
    }

    private static func misfits(_ row: ProjectedRow?) -> Cell {
        guard let row, !row.misfits.isEmpty else { return .null }
        return .texts(row.misfits)
    }

    private func change(_ stamp: EntryStamp, _ old: ProjectedRow?, _ new: ProjectedRow?) -> [Cell] {
        // What is gone where a history begins once more is gone as anything else: who looks for deletions finds it.
        let operation = new == nil ? "delete" : stamp.isBegin ? "begin" : old == nil ? "insert" : "update"
        return keyCells + [.int(stamp.seq), Self.time(stamp.at), .text(operation)] + Self.author(stamp.author) + [
            old.map { .json(RowJSON.encode($0, names)) } ?? .null,
            new.map { .json(RowJSON.encode($0, names)) } ?? .null, Self.misfits(new),
        ]
    }

    private func latest(_ row: ProjectedRow) -> [Cell] {
        keyCells + row.cells + [
            .int(row.stamp.seq), Self.time(row.stamp.committedAt), Self.misfits(row), .null,
        ]
    }

    /// The errors of a row that stays as a removed one stay, as they say what it lacks.
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
