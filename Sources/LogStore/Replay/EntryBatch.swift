import Postgres
import Tree

/// Entries of another log as parameters of `pathmirror.append_entries`, which applies them in one call.
struct EntryBatch {
    static let append = PostgresStatement(
        "append_entries", "select pathmirror.append_entries($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        types: [
            .int8, .int8, .textArray, .textArray, .textArray, .textArray, .int8Array, .textArray, .int8Array,
            .textArray,
            .textArray, .uuid, .int8Array,
        ])

    private(set) var count: Int64 = 0
    private var operations = PostgresArray(of: .text)
    private var paths = PostgresArray(of: .text)
    private var changes = PostgresArray(of: .text)
    private var origins = PostgresArray(of: .text)
    private var changeEntries = PostgresArray(of: .int8)
    private var changePaths = PostgresArray(of: .text)
    private var rowChanges = PostgresArray(of: .int8)
    private var rows = ChangeRows()
    private var sourceSeqs = PostgresArray(of: .int8)

    mutating func append(
        _ head: LogLine.Head, _ changes: [Change], origin: [UInt8], sourceSeq: Int64
    ) {
        count += 1
        operations.appendText(head.operation.rawValue)
        paths.appendText(head.path.description)
        self.changes.appendText(ChangeCodec.encode(changes))
        origins.appendText(origin)
        sourceSeqs.appendInt8(sourceSeq)
        for change in changes {
            changeEntries.appendInt8(count)
            changePaths.appendText(change.path.description)
            let before = rows.count
            rows.append(change)
            for _ in before..<rows.count { rowChanges.appendInt8(Int64(changePaths.count)) }
        }
    }

    func parameters(_ namespace: Int64, from seq: Int64, source: [UInt8]) -> PostgresParameters {
        [
            .int8(namespace), .int8(seq), .array(operations), .array(paths), .array(changes), .array(origins),
            .array(changeEntries), .array(changePaths), .array(rowChanges), .array(rows.paths), .array(rows.values),
            .uuid(source), .array(sourceSeqs),
        ]
    }
}

/// The leaves of changes' values, as two arrays.
struct ChangeRows {
    private(set) var paths = PostgresArray(of: .text)
    private(set) var values = PostgresArray(of: .text)
    private(set) var count = 0

    mutating func append(_ change: Change) {
        if change.path.namesPriority {
            if !change.value.isNull { append(Array(change.path.description.utf8), change.value) }
            return
        }
        TreeRows.forEach(in: change.value, at: change.path) { append($0, $1) }
    }

    private mutating func append(_ path: [UInt8], _ value: Node) {
        paths.appendText(path)
        values.appendText(JSONWriter.encode(value, form: .plain))
        count += 1
    }
}

/// Changes that `pathmirror.put_leaves` can make all at once with the same result as one after another: new leaves of
/// which none is above another, and priorities of nodes among them.
struct LeafRun {
    private(set) var branches = PostgresArray(of: .text)
    private(set) var paths = PostgresArray(of: .text)
    private(set) var values = PostgresArray(of: .text)
    private var taken: Set<[UInt8]> = []
    private var above: Set<[UInt8]> = []

    var isEmpty: Bool { paths.count == 0 }

    /// Adds a change. Returns false if the change does not qualify; the caller must then apply the collected changes
    /// first.
    mutating func append(_ change: Change) -> Bool {
        let value = change.value
        guard !value.isNull, !value.isBranch, value.priority.isNull, !change.path.isRoot else { return false }
        let path = Array(change.path.description.utf8)
        // The statement removes rows below the path, with a bound that is one byte longer than the path and must not be
        // cut.
        guard path.count < StoredPath.maxPlainBytes, !taken.contains(path), !above.contains(path) else { return false }
        if change.path.namesPriority {
            let parent = Self.parent(path)
            guard taken.contains(parent) || above.contains(parent) else { return false }
        } else {
            var new: [[UInt8]] = []
            var parent = path
            // The ancestors of a known branch are known as well.
            while parent.count > 1 {
                parent = Self.parent(parent)
                if above.contains(parent) { break }
                if taken.contains(parent) { return false }
                new.append(parent)
            }
            for parent in new {
                above.insert(parent)
                branches.appendText(parent)
            }
        }
        taken.insert(path)
        paths.appendText(path)
        values.appendText(JSONWriter.encode(value, form: .plain))
        return true
    }

    private static func parent(_ path: [UInt8]) -> [UInt8] {
        let slash = path.lastIndex(of: UInt8(ascii: "/")) ?? 0
        return Array(path[..<max(1, slash)])
    }
}
