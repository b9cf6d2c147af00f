import LogStore
import Runtime
import Tree

/// A large write that is evaluated and whose rows are in an open transaction: what is left is to make it the next entry.
///
/// It goes from the large writer's thread to the committer that works on the namespace, and comes back with a result; only
/// the one that has it touches it.
///
/// @unchecked Sendable is safe: the large writer's thread hands it over through the namespace's queue, and does nothing with
/// it or with its session until `result` is there.
final class LargeWrite: @unchecked Sendable {
    enum Result: Sendable {
        /// Its outcome has been told.
        case done
        /// Nothing was written, and it has to be prepared anew.
        case again
        /// It may have been committed, and nobody could find out in time.
        case failed(EngineError)
        /// The session was lost or its transaction failed: nothing was written.
        case connectionFailed(LogStoreError)
    }

    let item: WriteQueue.Waiting
    let connection: LogConnection
    let number: Int64
    let parts: Int32
    let record: Batch.Record
    let changes: [Change]
    /// As the writer is told of them.
    let told: [Change]
    let id = Batch.makeID()
    private let places: TouchedPaths
    /// The tree that it was judged by.
    let base: Snapshot
    /// The tree after it, with what others have written since then.
    private(set) var root: Node
    /// The entry up to which that holds.
    private(set) var seq: Int64
    /// The batch of that entry, where it is known.
    private(set) var batch: [UInt8]?

    private let result = Condition<Result?>(nil)

    init(
        _ item: WriteQueue.Waiting, _ connection: LogConnection, number: Int64, parts: Int32, base: Snapshot,
        root: Node,
        record: Batch.Record, changes: [Change], told: [Change]
    ) {
        self.item = item
        self.connection = connection
        self.number = number
        self.parts = parts
        self.base = base
        self.root = root
        self.record = record
        self.changes = changes
        self.told = told
        seq = base.seq
        batch = base.batch
        places = TouchedPaths(changes)
    }

    /// Puts entries that others wrote before this write. False where that can't be done: it has to be prepared anew.
    ///
    /// Its rows are those of the tree that it was judged by. They are the right ones after the others' entries, too, if those
    /// touch other places, and what is above both is there before and after.
    func take(_ logged: [LoggedEntry]) -> Bool {
        for one in logged {
            let entry = one.entry
            guard entry.seq == seq + 1, !entry.isBulk, entry.operation != .rules else { return false }
            for change in entry.changes {
                let depends = item.write.expectedHash != nil && change.path.overlaps(item.write.path)
                if depends || places.conflicts(with: change) { return false }
                root = root.replacing(change.path, with: change.value)
            }
            seq = entry.seq
            batch = one.batchID
        }
        // The root's own priority goes with the last child, and would come back with the next.
        return logged.isEmpty || !root.isNull && root.priority == base.root.priority && !base.root.isNull
    }

    func finish(_ value: Result) { result.broadcast { $0 = value } }

    /// Waits until the committer is done with it.
    func wait() -> Result { result.wait { $0 } ?? .again }
}

extension Path {
    fileprivate func overlaps(_ other: Path) -> Bool { contains(other) || other.contains(self) }
}
