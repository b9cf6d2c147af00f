import LogStore
import Postgres
import Tree

/// Applies the log to a table under construction, to which no other session writes.
struct CatchingUp {
    private let source: LogConnection
    private let target: PostgresConnection
    private let mirror: CatalogMirror
    private let progress: (MirrorBuilder.Progress) -> Void
    private let stepper: MirrorStepWriter
    /// The swap begins when the new table lacks at most this many entries. From then on the old table can't move.
    static let entriesLeftToSwap: Int64 = 1_000

    init(
        source: LogConnection, target: PostgresConnection, mirror: CatalogMirror,
        progress: @escaping (MirrorBuilder.Progress) -> Void
    ) {
        self.source = source
        self.target = target
        self.mirror = mirror
        self.progress = progress
        stepper = MirrorStepWriter(source: source, target: target, namespace: mirror.namespaceID)
    }

    /// Applies the log until at most `entriesLeftToSwap` entries are left, in one transaction per step.
    func comeNear(_ building: inout ActiveMirror) throws {
        while true {
            try target.executeScript("begin")
            let before = building
            do {
                let step = try advance(&building)
                try target.executeScript("commit")
                progress(.catchingUp(seq: step.seq, head: step.head))
                if step.head - step.seq <= Self.entriesLeftToSwap { return }
            } catch {
                building = before
                throw error
            }
        }
    }

    /// Applies the log up to the head, in the open transaction.
    func reachHead(_ building: inout ActiveMirror) throws {
        var step = try advance(&building)
        while step.seq < step.head { step = try advance(&building) }
    }

    private func advance(_ building: inout ActiveMirror) throws -> MirrorStepWriter.Step {
        guard let record = try source.beginSnapshot(mirror.namespaceID) else {
            throw MirrorError.refused("The namespace \"\(mirror.namespace)\" no longer exists.")
        }
        defer { source.endSnapshot() }
        return try advance(&building, in: record)
    }

    /// Applies one step of the log, on the open snapshot of the source and in the open transaction of the target.
    func advance(_ building: inout ActiveMirror, in record: NamespaceRecord) throws -> MirrorStepWriter.Step {
        var one = [building]
        // If the table rejects a row's data, the step is rolled back to the savepoint and repeated row by row.
        do {
            try target.executeScript("savepoint step")
            let step = try stepper.advance(&one, in: record, .joined)
            building = one[0]
            return step
        } catch MirrorError.table(_, let error) where error.isAboutData {
            try target.executeScript("rollback to savepoint step")
            one = [building]
            stepper.beCareful(with: &one[0])
            let step = try stepper.advance(&one, in: record, .joined)
            building = one[0]
            return step
        }
    }
}
