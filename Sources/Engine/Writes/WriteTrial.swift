import Tree

/// Judges a large write before it is queued, so that what is refused in the end costs no committer anything.
public enum WriteTrial {
    /// What would become of a write as of a snapshot, if it would not be done; nil where it would. Any thread.
    ///
    /// Final where the snapshot is no older than the request: see `LiveNamespace.withCurrentSnapshot`.
    ///
    /// - Parameter now: milliseconds since 1970.
    public static func refusal(of write: Write, on snapshot: Snapshot, now: Int64) -> WriteOutcome? {
        let asked: [Change]
        switch write.action {
        case .set(let path, let node): asked = [Change(path: path, value: node)]
        case .update(_, let changes): asked = ApplicationOrder.sorted(changes)
        case .rules, .disconnect, .recall: return nil
        }
        let evaluation = Evaluation(snapshot, timestamp: now, keepsSteps: false)
        guard case .refused(let outcome) = evaluation.judge(write, asked) else { return nil }
        return outcome
    }
}
