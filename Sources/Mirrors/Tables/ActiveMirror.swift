import Crypto
import LogStore
import Postgres
import Runtime
import Tree

/// A mirror as its runner has it: its table, and where its cursor was last.
struct ActiveMirror {
    let id: [UInt8]
    let namespace: Int64
    let generation: Int64
    let table: MirrorTable
    let projector: Projector
    var seq: Int64
    /// The batch of the entry there; nil where nobody knows it yet.
    var batch: [UInt8]?
    /// Whether errors may be stored: then those of a record that is written anew have to go.
    var mayHaveErrors: Bool
    /// Its last stretch of the log held a row that the table refused: this time rows are tried one by one.
    var isCareful = false
    /// A step of several pages was in vain because of such a row: as far as it may have come, steps are of one page, so that the next one
    /// is not in vain for the same row.
    var byPageThrough: Int64 = 0
    /// What the table's indexes are called once it is whole, while a build has them under names of its own.
    var namesToBe: [IndexNameToBe] = []
    /// The records that a foreign key refused in this stretch.
    var waiting: [String] = []
    /// What the stretch being worked on does to it.
    var pending: PendingChanges

    var name: String { table.definition.name }
    var definition: MirrorDefinition { table.definition }
    /// What its records were, where it keeps that.
    var versions: MirrorVersions { MirrorVersions(namespace: namespace, mirror: id) }
    /// The table as its errors know it.
    var asGeneration: MirrorGeneration {
        MirrorGeneration(namespace: namespace, mirror: id, generation: generation)
    }

    init(
        id: [UInt8], namespace: Int64, generation: Int64, table: MirrorTable, seq: Int64, batch: [UInt8]?,
        mayHaveErrors: Bool
    ) {
        self.id = id
        self.namespace = namespace
        self.generation = generation
        self.table = table
        self.seq = seq
        self.batch = batch
        self.mayHaveErrors = mayHaveErrors
        projector = Projector(table.definition)
        pending = PendingChanges(table.definition.pattern)
    }
}

extension ActiveMirror {
    /// The mirror as its cursor says it is.
    init(_ mirror: CatalogMirror, _ cursor: MirrorCursor) {
        let definition = cursor.definition
        // Statements are kept by name on a connection: a new generation needs new ones, and so does another mirror that has
        // the name of one that was dropped, and begins with the first generation again.
        let label = "\(mirror.name) \(cursor.generation) \(Hex.encode(mirror.id.suffix(4)))"
        self.init(
            id: mirror.id, namespace: mirror.namespaceID, generation: cursor.generation,
            table: MirrorTable(definition, name: definition.table, label: label), seq: cursor.seq,
            batch: cursor.batch, mayHaveErrors: cursor.hasErrors)
    }
}

extension ActiveMirror {
    /// Stores values that did not fit, up to as many as the mirror's definition has kept, or errors of records that wait, up to
    /// `MirrorErrors.mostWaiting`.
    ///
    /// - Parameters:
    ///   - misfits: no two of a record and column; of a history, no two of those by one entry.
    ///   - areWaiting: whether the errors are those of records that wait.
    func storing(_ misfits: [ConversionError], areWaiting: Bool = false) -> PipelineStep {
        let errors = misfits.map {
            MirrorErrorRecord(
                record: $0.record, column: $0.column, path: $0.path, seq: $0.seq, value: $0.value, reason: $0.reason)
        }
        return MirrorErrors.storeStep(
            errors, of: asGeneration, keeping: areWaiting ? MirrorErrors.mostWaiting : definition.keptErrors,
            apartByEntries: definition.isHistory)
    }

    /// An error of a record as a whole.
    func error(of keys: [Key], seq: Int64, _ reason: String) -> ConversionError {
        let path = definition.pattern.path(of: keys).description
        return ConversionError(record: path, column: "", path: path, seq: seq, value: nil, reason: reason)
    }

    /// Whether the record is tried again, as another table is in the way, by a foreign key.
    static func isForNow(_ reason: String) -> Bool { reason.hasPrefix(MirrorErrors.forNow) }

    /// Why the table refuses a row, with the names of indexes that people know.
    ///
    /// - Parameter toRemove: the row is there and can't be removed.
    func refusal(_ error: PostgresError, toRemove: Bool = false) -> String {
        let message = namesToBe.reduce(error.message) { $1.naming($0) }
        // What a mirror keeps of its records' past does not come from the tree, so that nothing can be tried again.
        let time = error.isForeignKey && definition.keeps == nil ? MirrorErrors.forNow : ""
        return "\(time)the table \(toRemove ? "keeps" : "refuses") the row: \(message)"
    }

    /// The captured keys of records, by their paths.
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

/// What an index of a table that is being made is called now, and once that is whole.
struct IndexNameToBe {
    let built: String
    let name: String

    /// A text of the server with the name that people know. The server quotes names, so that one that begins like another is
    /// not taken for it.
    func naming(_ text: String) -> String { text.replacing("\"\(built)\"", with: "\"\(name)\"") }

    /// Those of a definition's own indexes, the key's among them.
    static func own(of table: MirrorTable) -> [IndexNameToBe] {
        zip(table.indexNames(of: table.name), table.indexNames(of: table.definition.table)).map {
            IndexNameToBe(built: $0, name: $1)
        }
    }
}
