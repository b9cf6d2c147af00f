import LogStore
import TestSupport
import Testing
import Tree

@testable import Mirrors

/// The expected content of tables that keep earlier states of records, computed from whole trees: each entry is applied
/// to the tree, and the records before and after it are compared. Used by the property tests.
struct PlainHistory {
    struct Version: Equatable, CustomStringConvertible {
        /// A `Key`, because two spellings of é are equal strings.
        let key: Key
        let seq: Int64
        let via: String?
        let record: String?

        var description: String { "\(key) @\(seq) by \(via ?? "-") \(record ?? "gone")" }
    }

    /// The key of a row of a history.
    struct VersionID: Hashable {
        let key: Key
        let seq: Int64
    }

    /// The expected row of a table of changes.
    struct Change: Equatable {
        let operation: String
        var old: PlainProjection.Row?
        let new: PlainProjection.Row?
    }

    /// The expected row of a table that keeps the rows of removed records.
    struct Last: Equatable {
        var row: PlainProjection.Row
        /// Nil if the row is older than the mirror.
        var seq: Int64?
        /// Milliseconds since 1970.
        var at: Int64?
        var isGone = false
    }

    private(set) var versions: [Version] = []
    private(set) var changes: [VersionID: Change] = [:]
    private(set) var last: [Key: Last] = [:]
    private let definition: MirrorDefinition
    private let projector: Projector

    /// - Parameter first: The entry with which the history begins. The tree before it is the initial state.
    init(
        _ log: LogConnection, _ namespace: Int64, _ definition: MirrorDefinition, from first: Int64 = 1,
        through end: Int64, _ trees: LogTrees = LogTrees()
    ) throws {
        self.definition = definition
        projector = Projector(definition)
        var before: [[Key]: Node] = [:]
        var seq: Int64 = 0
        try trees.forEach(log, namespace, through: end) { entry, root in
            if seq == first - 1 { begin(before, seq) }
            let after = records(of: root, definition.pattern).filter { projector.holds($0.key) }
            seq = entry.seq
            if seq >= first { add(entry, before, after) }
            before = after
        }
        if seq == first - 1 { begin(before, seq) }
    }

    private mutating func begin(_ records: [[Key]: Node], _ seq: Int64) {
        guard seq > 0 else { return }
        for (keys, record) in records {
            let key = Key(RecordKey.text(keys))
            versions.append(Version(key: key, seq: seq, via: nil, record: Self.json(record)))
            guard let row = row(record, keys) else { continue }
            changes[VersionID(key: key, seq: seq)] = Change(operation: "begin", old: nil, new: row)
            last[key] = Last(row: row)
        }
    }

    private mutating func add(_ entry: Entry, _ before: [[Key]: Node], _ after: [[Key]: Node]) {
        let via = entry.origin.flatMap { MirrorAuthor($0)?.via }
        for keys in Set(before.keys).union(after.keys) {
            let old = before[keys] ?? .null
            let new = after[keys] ?? .null
            if old == new { continue }
            let key = Key(RecordKey.text(keys))
            versions.append(
                Version(key: key, seq: entry.seq, via: via, record: new.isNull ? nil : Self.json(new)))
            let row = row(new, keys)
            if let row {
                last[key] = Last(row: row, seq: entry.seq, at: entry.committedAt)
            } else if let known = last[key], !known.isGone {
                last[key] = Last(row: known.row, seq: entry.seq, at: entry.committedAt, isGone: true)
            }
            // Changes are detected by all digits and bytes. Values are compared as PostgreSQL returns them.
            if exact(old, keys) == exact(new, keys) { continue }
            let oldRow = self.row(old, keys)
            let operation = oldRow == nil ? "insert" : row == nil ? "delete" : "update"
            changes[VersionID(key: key, seq: entry.seq)] = Change(operation: operation, old: oldRow, new: row)
        }
    }

    private func row(_ record: Node, _ keys: [Key]) -> PlainProjection.Row? {
        record.isNull ? nil : PlainProjection(definition, records: [keys: record]).rows[keys]
    }

    /// The complete projection, as bytes.
    private func exact(_ record: Node, _ keys: [Key]) -> [UInt8]? {
        var conversionErrors: [ConversionError] = []
        return projector.row(
            record, keys: keys, stamp: Stamp(seq: 0, committedAt: nil), conversionErrors: &conversionErrors
        ).map {
            Array("\($0.cells) \($0.conversionErrors)".utf8)
        }
    }

    private static func json(_ node: Node) -> String {
        String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self)
    }
}
