import LogStore
import Postgres
import Tree

/// Brings a table that is being made, and that nobody else writes to, along the log.
struct CatchingUp {
    private let source: LogConnection
    private let target: PostgresConnection
    private let mirror: CatalogMirror
    private let progress: (MirrorBuilder.Progress) -> Void
    private let stepper: Stepper
    /// How near the head the new table has to be before the old one is kept from moving.
    static let entriesLeftToSwap: Int64 = 1_000

    init(
        source: LogConnection, target: PostgresConnection, mirror: CatalogMirror,
        progress: @escaping (MirrorBuilder.Progress) -> Void
    ) {
        self.source = source
        self.target = target
        self.mirror = mirror
        self.progress = progress
        stepper = Stepper(source: source, target: target, namespace: mirror.namespaceID)
    }

    /// Brings it near the head, a transaction a step.
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

    /// Brings it to the head, in the transaction that is open.
    func reachHead(_ building: inout ActiveMirror) throws {
        var step = try advance(&building)
        while step.seq < step.head { step = try advance(&building) }
    }

    private func advance(_ building: inout ActiveMirror) throws -> Stepper.Step {
        guard let record = try source.beginSnapshot(mirror.namespaceID) else {
            throw MirrorError.refused("The namespace \"\(mirror.namespace)\" is gone.")
        }
        defer { source.endSnapshot() }
        return try advance(&building, in: record)
    }

    /// Takes a step on the snapshot that is open, in the transaction that is open on the target.
    func advance(_ building: inout ActiveMirror, in record: NamespaceRecord) throws -> Stepper.Step {
        var one = [building]
        // Whatever the table may refuse, it is found out here, row by row, at a savepoint's price.
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
