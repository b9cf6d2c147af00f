import LogStore
import Postgres

extension ActiveMirror {
    /// Stores values that did not fit, up to as many as the mirror's definition has kept.
    ///
    /// - Parameter misfits: no two of a record and column; of a history, no two of those by one entry.
    func storing(_ misfits: [ConversionError]) -> PipelineStep {
        let errors = misfits.map {
            MirrorErrorRecord(
                record: $0.record, column: $0.column, path: $0.path, seq: $0.seq, value: $0.value, reason: $0.reason)
        }
        return MirrorErrors.storeStep(
            errors, of: asGeneration, keeping: definition.keptErrors, apartByEntries: definition.isHistory)
    }
}
