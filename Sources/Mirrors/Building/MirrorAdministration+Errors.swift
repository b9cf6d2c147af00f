public import LogStore
import Postgres
import Tree

extension MirrorAdministration {
    /// All mirrors' states.
    public func statuses() throws -> [MirrorStatus] { try source.mirrorStatuses() }

    /// The values of a mirror that did not fit, by record, at most so many, each with when it was found in milliseconds since
    /// 1970.
    public func misfits(_ mirror: CatalogMirror, limit: Int) throws -> [(error: MirrorErrorRecord, foundAt: Int64)] {
        let target = try connect(mirror)
        defer { target.close() }
        return try MirrorErrors.list(target, mirror.namespaceID, mirror.id, limit: limit)
    }

    /// How many errors of a mirror were found and, as there were too many, not kept since its table was made.
    public func unkeptErrors(_ mirror: CatalogMirror) throws -> Int64 {
        let target = try connect(mirror)
        defer { target.close() }
        guard let cursor = try MirrorCursor.of(mirror, target) else { return 0 }
        return try MirrorErrors.unkept(target, ActiveMirror(mirror, cursor).asGeneration)
    }

    /// Reads the records again whose errors are kept. Returns how many there were, and how many errors are left.
    ///
    /// - Parameter begins: is told how many records there are, once that is known.
    public func retryConversionErrors(
        _ mirror: CatalogMirror, begins: (_ records: Int) -> Void = { _ in }
    ) throws -> (records: Int, left: Int) {
        guard mirror.definition.keeps == nil else {
            throw MirrorError.refused(
                "\(mirror.definition.tableName) keeps what its records were, and its rows are made of that: 'pathmirror replay mirror \(mirror.name)' makes all of them again."
            )
        }
        let target = try connect(mirror)
        defer { target.close() }
        let moved = try moveAlone(mirror) { one, stepper, record in
            // Nobody else changes them while the cursor is held.
            let keys = one[0].keys(of: try MirrorErrors.records(target, one[0].asGeneration))
            one[0].isCareful = true
            begins(keys.count)
            return (keys.count, try stepper.advance(&one, in: record, .joined, rereading: [one[0].name: keys]))
        }
        return (moved.result, Int(try MirrorErrors.kept(target, moved.mirror.asGeneration)))
    }
}
