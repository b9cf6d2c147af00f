/// Why an entry can't be undone. Nothing was changed.
public enum UndoError: Error, Sendable, CustomStringConvertible {
    case beyondHead(seq: Int64, head: Int64)
    /// The entry was pruned.
    case notInLog(seq: Int64, retainedFrom: Int64)
    /// The entry is there, and the tree before it can't be rebuilt any more.
    case stateNotRetained(seq: Int64, oldest: Int64)
    case rulesEntry(seq: Int64, namespace: String)
    /// The tree before the entry and the tree after it are equal.
    case changedNothing(seq: Int64)
    /// Later entries wrote at, above or below the entry's paths.
    case overwritten(seq: Int64, by: LaterWrites)
    /// The entry removed or replaced more, at several paths, than one entry without parts holds.
    case tooLarge(seq: Int64, namespace: String, rowCount: Int, pathCount: Int)

    public var description: String {
        switch self {
        case .beyondHead(let seq, let head): "There is no entry \(seq): the head is \(head)."
        case .notInLog(let seq, let retainedFrom):
            "Entry \(seq) can't be undone: it was pruned. The log begins at \(retainedFrom)."
        case .stateNotRetained(let seq, let oldest):
            "Entry \(seq) can't be undone: the state before it was pruned. The log and the snapshots reach back to the tree at seq \(oldest)."
        case .rulesEntry(let seq, let namespace):
            "Entry \(seq) changed the security rules, which 'log undo' does not change. 'pathmirror rules history --ns \(namespace)' lists the rules, and 'pathmirror rules rollback SEQ --ns \(namespace)' puts earlier ones in force."
        case .changedNothing(let seq): "Entry \(seq) changed nothing: there is nothing to undo."
        case .overwritten(let seq, let later):
            "Entry \(seq) can't be undone: \(later.count) later \(later.count == 1 ? "entry" : "entries") wrote at, above or below the same paths. Nothing was changed."
        case .tooLarge(let seq, let namespace, let rowCount, let pathCount):
            "Entry \(seq) can't be undone by one entry: \(rowCount) leaves at \(pathCount) paths would have to be written. Restore each path by 'pathmirror replay tree --at \(seq - 1) --path PATH --ns \(namespace) --into \(namespace) --replace'."
        }
    }
}
