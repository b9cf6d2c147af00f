import Postgres
public import Tree

/// Writes the inverse of one entry, if no later entry wrote at, above or below the same paths.
public struct EntryUndo {
    public let entry: Entry
    public let inverse: EntryInverse
    private let connection: LogConnection
    private let namespace: NamespaceRecord
    /// A priority that the inverse changes.
    private struct Priority {
        let path: Path
        /// The priority after the entry.
        let value: Node
        /// Whether the node that has the priority existed after the entry.
        let ownerExists: Bool
    }

    private let priorities: [Priority]

    /// The maximum number of rows in an entry without parts. An inverse with more rows is written like an import.
    private let maxRows: Int
    private static let maxBytes = 32 << 20

    /// The entry with a seq.
    ///
    /// - Throws: `UndoError` if the log lacks the entry, or if it cannot be undone.
    public static func entry(
        _ connection: LogConnection, _ namespace: NamespaceRecord, _ seq: Int64
    ) throws -> Entry {
        guard seq <= namespace.head else { throw UndoError.beyondHead(seq: seq, head: namespace.head) }
        guard let entry = try connection.entry(namespace.id, seq)?.entry else {
            throw UndoError.notInLog(seq: seq, retainedFrom: namespace.retainedFrom)
        }
        guard entry.operation != .rules else { throw UndoError.rulesEntry(seq: seq, namespace: namespace.name) }
        return entry
    }

    /// Plans the undo of an entry.
    ///
    /// - Parameters:
    ///   - old: the tree before the entry.
    ///   - new: the tree after the entry.
    ///   - maxRows: the most rows that one entry without parts holds.
    public init(
        _ connection: LogConnection, _ namespace: NamespaceRecord, _ entry: Entry, from old: Node, to new: Node,
        maxRows: Int = 200_000
    ) throws {
        self.maxRows = maxRows
        self.connection = connection
        self.namespace = namespace
        self.entry = entry
        inverse = EntryInverse(of: entry, from: old, to: new)
        priorities = inverse.changes.map(\.path).filter(\.namesPriority).map { path in
            Priority(path: path, value: new[path], ownerExists: !new[Self.owner(of: path)].isNull)
        }
        guard !inverse.changes.isEmpty else { throw UndoError.changedNothing(seq: entry.seq) }
        guard !isLarge || inverse.changes.count == 1 else {
            throw UndoError.tooLarge(
                seq: entry.seq, namespace: namespace.name, rowCount: inverse.writtenRows,
                pathCount: inverse.changes.count)
        }
    }

    private var isLarge: Bool {
        let rows = inverse.writtenRows
        // Few leaves may be long.
        return rows > maxRows || (rows > 0 && ChangeCodec.encode(inverse.changes).count > Self.maxBytes)
    }

    /// Looks for later entries, up to `last`, that wrote at, above or below the same paths. An entry that was undone does not
    /// count.
    ///
    /// - Parameter progress: receives the seq of the last entry of each page.
    /// - Throws: `UndoError.overwritten` if there are any.
    public func check(through last: Int64, progress: (Int64) throws -> Void = { _ in }) throws {
        let later = try LaterWrites.find(
            connection, namespace.id, of: PathSet(inverse.watched), after: entry.seq, through: last,
            progress: progress)
        guard later.isEmpty else { throw UndoError.overwritten(seq: entry.seq, by: later) }
        // A node may have lost its priority with its last child, by an entry that did not name it, or may be gone.
        let lost = try priorities.filter { priority in
            if try connection.readLeaf(namespace.id, priority.path) != priority.value { return true }
            return try priority.ownerExists && !connection.hasNode(namespace.id, Self.owner(of: priority.path))
        }
        guard !lost.isEmpty else { return }
        // These nodes were read after `last`: the entry that changed them may be a later one.
        let head = try connection.namespace(id: namespace.id)?.head ?? last
        let changes = try LaterWrites.find(
            connection, namespace.id, of: PathSet(Self.owners(lost)), after: entry.seq, through: max(head, last),
            progress: progress)
        throw UndoError.overwritten(seq: entry.seq, by: changes)
    }

    /// Throws if an entry between the plan and the head wrote to the same paths. The lock of the head is held.
    private func checkUnderLock(after head: Int64, through last: Int64) throws {
        let later = try LaterWrites.find(
            connection, namespace.id, of: PathSet(inverse.watched + Self.owners(priorities)), after: head,
            through: last, countsUndone: true)
        guard later.isEmpty else { throw UndoError.overwritten(seq: entry.seq, by: later) }
    }

    /// The paths of the nodes that have the priorities.
    private static func owners(_ priorities: [Priority]) -> [Path] { priorities.map { owner(of: $0.path) } }

    private static func owner(of priority: Path) -> Path { priority.prefix(priority.depth - 1) }

    /// Writes the inverse as one entry.
    ///
    /// - Parameter head: the head up to which `check` has looked. Entries after it are checked under the head's lock.
    /// - Returns: the seq of the new entry.
    /// - Throws: `UndoError.overwritten`, or another error; then nothing was changed.
    public func write(after head: Int64) throws -> Int64 {
        if isLarge, let change = inverse.changes.first { return try load(change, after: head) }
        do {
            let seq = try connection.postgres.pipeline([
                .query("begin"), .query("select pathmirror.begin_entry($1)", [.int8(namespace.id)]),
            ])[1].int64(0, 0)
            try checkUnderLock(after: head, through: seq - 1)
            for change in inverse.changes { try connection.apply(namespace.id, seq, change) }
            try connection.postgres.pipeline([
                .query(
                    "select pathmirror.finish_entry($1, $2, $3, $4, $5, $6, $7)",
                    [
                        .int8(namespace.id), .int8(seq), .text(inverse.operation.rawValue),
                        .text(inverse.path.description), .json(ChangeCodec.encode(inverse.changes)), .int4(0),
                        .json(Origin(undoing: entry.seq).json),
                    ]),
                .query("commit"),
            ])
            return seq
        } catch {
            connection.unlockHead()
            throw error
        }
    }

    private func load(_ change: Change, after head: Int64) throws -> Int64 {
        let importer = try Importer(connection, namespace, at: change.path)
        importer.plannedHead = head
        importer.origin = Origin(undoing: entry.seq)
        do {
            try TreeRows.forEach(in: change.value, at: change.path) { try importer.add($0, $1) }
            try importer.finish()
        } catch {
            importer.abandon()
            throw error
        }
        return importer.lastSeq
    }
}
