import LogStore
import Runtime
import Tree

/// A large write that is evaluated and whose rows are in an open transaction: what is left is to make it the next entry.
///
/// It goes from the large writer's thread to the committer that works on the namespace, and comes back with a result; only
/// the one that has it touches it.
///
/// @unchecked Sendable is safe: the large writer's thread hands it over through the namespace's queue, and does nothing with
/// it or with its connection until `result` is there.
final class LargeWrite: @unchecked Sendable {
    enum Result: Sendable {
        /// Its outcome has been told.
        case done
        /// Nothing was written, and it has to be prepared anew.
        case again
        /// It may have been committed, and nobody could find out in time.
        case failed(EngineError)
        /// The connection was lost or the transaction failed: nothing was written.
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
    /// The tree after it, with what others have written since it was evaluated.
    var tree: MergedTree

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
        self.record = record
        self.changes = changes
        self.told = told
        tree = MergedTree(
            base, after: root, changes: changes,
            condition: item.write.expectedHash == nil ? nil : item.write.path)
    }

    /// Says what became of it; called once, by whoever has it.
    func finish(_ value: Result) { result.broadcast { $0 = value } }

    /// Waits until the committer is done with it.
    func wait() -> Result { result.wait { $0 } ?? .again }
}
