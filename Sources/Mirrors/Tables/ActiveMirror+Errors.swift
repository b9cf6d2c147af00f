import LogStore
import Postgres
import Tree

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
