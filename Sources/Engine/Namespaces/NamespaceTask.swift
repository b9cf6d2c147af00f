/// What the committer that works on a namespace has to do.
struct NamespaceTask: Sendable {
    /// The highest head that was heard of.
    let remoteHead: Int64
    /// Somebody has found that the database has another history of the namespace.
    let isSuspect: Bool
    /// The writes of the next batch; may be empty.
    let batch: [WriteQueue.Waiting]
    /// Whether others were writing here lately.
    let isContended: Bool
    /// Somebody waits for an entry that isn't here yet.
    let hasWaiters: Bool

    /// Whether the log has to be looked at before anything else is done.
    ///
    /// - Parameter seq: where the namespace's snapshot is.
    func hasToFollow(from seq: Int64) -> Bool {
        remoteHead > seq || isSuspect || (hasWaiters && batch.isEmpty)
    }
}
