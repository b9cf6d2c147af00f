import Postgres
import Tree

/// Changes that may be made all at once by `pathmirror.put_leaves`, as they would be one after another: leaves of which
/// none is above another or there already, and priorities of what is among them.
struct LeafRun {
    private(set) var branches = PostgresArray(of: .text)
    private(set) var paths = PostgresArray(of: .text)
    private(set) var values = PostgresArray(of: .text)
    private var taken: Set<[UInt8]> = []
    private var above: Set<[UInt8]> = []

    var isEmpty: Bool { paths.count == 0 }

    /// Takes a change, if it is such a one; otherwise what was taken must be made first.
    mutating func append(_ change: Change) -> Bool {
        let value = change.value
        guard !value.isNull, !value.isBranch, value.priority.isNull, !change.path.isRoot else { return false }
        let path = Array(change.path.description.utf8)
        // Below it there are rows to be removed, up to a key that is one byte longer.
        guard path.count < StoredPath.maxPlainBytes, !taken.contains(path), !above.contains(path) else { return false }
        if change.path.namesPriority {
            let place = Self.parent(path)
            guard taken.contains(place) || above.contains(place) else { return false }
        } else {
            var new: [[UInt8]] = []
            var place = path
            // What is above a known branch is known, too.
            while place.count > 1 {
                place = Self.parent(place)
                if above.contains(place) { break }
                if taken.contains(place) { return false }
                new.append(place)
            }
            for place in new {
                above.insert(place)
                branches.appendText(place)
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
