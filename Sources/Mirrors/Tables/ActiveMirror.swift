import Crypto
import LogStore
import Postgres
import Runtime
import Tree

/// A mirror in its runner: its table, and the last known position of its cursor.
struct ActiveMirror {
    let id: [UInt8]
    let namespace: Int64
    let generation: Int64
    let table: MirrorTable
    let projector: Projector
    /// The log position of the mirror.
    var position: LogPosition
    /// Whether errors may be stored. If so, a write of a record must remove the record's errors.
    var mayHaveErrors: Bool
    /// Whether the table has rejected a row of the last step. Rows are then tried one by one.
    var isCareful = false
    /// The position up to which steps take single pages, because a step of several pages has failed for such a row. The next
    /// such step must not fail for the same row.
    var byPageThrough: Int64 = 0
    /// The temporary and final names of the table's indexes, during a build.
    var namesToBe: [IndexRename] = []
    /// The records that a foreign key rejected in the current step.
    var waiting: [String] = []
    /// The changes of the current step.
    var pending: PendingChanges

    var seq: Int64 { position.seq }
    var name: String { table.definition.name }
    var definition: MirrorDefinition { table.definition }
    /// The versions of the mirror's records, if it has a history.
    var versions: MirrorVersions { MirrorVersions(namespace: namespace, mirror: id) }
    /// The table as errors refer to it.
    var asGeneration: MirrorGeneration {
        MirrorGeneration(namespace: namespace, mirror: id, generation: generation)
    }

    init(
        id: [UInt8], namespace: Int64, generation: Int64, table: MirrorTable, position: LogPosition,
        mayHaveErrors: Bool
    ) {
        self.id = id
        self.namespace = namespace
        self.generation = generation
        self.table = table
        self.position = position
        self.mayHaveErrors = mayHaveErrors
        projector = Projector(table.definition)
        pending = PendingChanges(table.definition.pattern)
    }
}

extension ActiveMirror {
    /// Creates a mirror in the state of its cursor.
    init(_ mirror: CatalogMirror, _ cursor: MirrorCursor) {
        let definition = cursor.definition
        // Connections keep prepared statements by name. A new generation needs new statements. So does a mirror with the name
        // of a dropped one, whose generations start again at the first.
        let label = "\(mirror.name) \(cursor.generation) \(Hex.encode(mirror.id.suffix(4)))"
        self.init(
            id: mirror.id, namespace: mirror.namespaceID, generation: cursor.generation,
            table: MirrorTable(definition, name: definition.table, label: label), position: cursor.position,
            mayHaveErrors: cursor.hasErrors)
    }
}

extension ActiveMirror {
    /// Returns the step that stores conversion errors, up to the definition's limit, or errors of waiting records, up to
    /// `MirrorErrors.mostWaiting`.
    ///
    /// - Parameters:
    ///   - conversionErrors: at most one per record and column; in a history, at most one per record, column and entry.
    ///   - areWaiting: whether these are the errors of waiting records.
    func storing(_ conversionErrors: [ConversionError], areWaiting: Bool = false) -> PipelineStep {
        let errors = conversionErrors.map {
            MirrorErrorRecord(
                record: $0.record, column: $0.column, path: $0.path, seq: $0.seq, value: $0.value, reason: $0.reason)
        }
        return MirrorErrors.storeStep(
            errors, of: asGeneration, keeping: areWaiting ? MirrorErrors.mostWaiting : definition.keptErrors,
            apartByEntries: definition.isHistory)
    }

    /// Returns an error of a record as a whole.
    func error(of keys: [Key], seq: Int64, _ reason: String) -> ConversionError {
        let path = definition.pattern.path(of: keys).description
        return ConversionError(record: path, column: "", path: path, seq: seq, value: nil, reason: reason)
    }

    /// Whether the record is tried again, because another table prevented the write by a foreign key.
    static func isForNow(_ reason: String) -> Bool { reason.hasPrefix(MirrorErrors.forNow) }

    /// Returns the reason why the table rejects a row, with the final names of indexes.
    ///
    /// - Parameter toRemove: whether the row exists and can't be removed.
    func refusal(_ error: PostgresError, toRemove: Bool = false) -> String {
        let message = namesToBe.reduce(error.message) { $1.naming($0) }
        // The rows of a history do not come from the tree, so they can't be retried.
        let time = error.isForeignKey && definition.keeps == nil ? MirrorErrors.forNow : ""
        return "\(time)the table \(toRemove ? "keeps" : "refuses") the row: \(message)"
    }

    /// Returns the captured keys of records with these paths.
    func keys(of records: [String]) -> [[Key]] {
        let parts = definition.pattern.parts
        return records.compactMap { record in
            let path = Path(splitting: record)
            guard path.depth == parts.count else { return nil }
            return zip(parts, path.keys).compactMap { part, key in
                if case .capture = part { key } else { nil }
            }
        }
    }
}

/// The temporary name of an index on a table under construction, and its final name.
struct IndexRename {
    let built: String
    let name: String

    /// Returns a text of the server with the final name. The server quotes names, so a name that begins like another one is not
    /// confused with it.
    func naming(_ text: String) -> String { text.replacing("\"\(built)\"", with: "\"\(name)\"") }

    /// Returns the names of a definition's own indexes, including that of the key.
    static func own(of table: MirrorTable) -> [IndexRename] {
        zip(table.indexNames(of: table.name), table.indexNames(of: table.definition.table)).map {
            IndexRename(built: $0, name: $1)
        }
    }
}
