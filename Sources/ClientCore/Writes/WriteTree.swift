import Tree

/// The client's writes that the server has not answered, by place.
///
/// They lie over the server's data as layers: at each place the latest write decides, and later writes below it change
/// what it left. What a place looks like depends only on the writes at, above and below it, so that a write elsewhere
/// costs nothing.
final class WriteTree {
    /// One value of a write at the place that it goes to.
    struct Entry {
        let id: WriteID
        let value: Node
        /// False for a transaction that is not applied locally.
        let isVisible: Bool
        /// Whether the value counts from what is below it.
        let isRelative: Bool
    }

    /// The writes at and below one place.
    final class Point {
        /// In the order of their numbers.
        var entries: [Entry] = []
        var children: [Key: Point] = [:]
        /// No write at or below this place has a greater number.
        var newest = WriteID(rawValue: .min)
    }

    /// A write as it is to be taken back or confirmed.
    struct Record {
        /// Absolute places, none above another.
        let changes: [Change]
        let isVisible: Bool
        let content: PendingWrite.Content
        let path: Path
    }

    let root = Point()
    private(set) var records: [WriteID: Record] = [:]

    var isEmpty: Bool { records.isEmpty }

    func add(_ id: WriteID, at path: Path, _ content: PendingWrite.Content, isVisible: Bool) -> Record {
        let changes: [Change]
        switch content {
        case .overwrite(let node): changes = [Change(path: path, value: node)]
        case .merge(let parts): changes = parts.map { Change(path: path.appending($0.path), value: $0.value) }
        }
        for change in changes {
            var point = root
            point.newest = max(point.newest, id)
            for key in change.path.keys {
                let below = point.children[key] ?? Point()
                point.children[key] = below
                point = below
                point.newest = max(point.newest, id)
            }
            let entry = Entry(
                id: id, value: change.value, isVisible: isVisible, isRelative: change.value.hasIncrement)
            point.entries.insert(entry, at: point.place(of: id))
        }
        let record = Record(changes: changes, isVisible: isVisible, content: content, path: path)
        records[id] = record
        return record
    }

    /// Forgets a write; nil when there is none of this number.
    func remove(_ id: WriteID) -> Record? {
        guard let record = records.removeValue(forKey: id) else { return nil }
        for change in record.changes { Self.remove(id, change.path.keys[...], from: root) }
        return record
    }

    private static func remove(_ id: WriteID, _ keys: ArraySlice<Key>, from point: Point) {
        guard let key = keys.first else {
            let index = point.place(of: id)
            if index < point.entries.count, point.entries[index].id == id { point.entries.remove(at: index) }
            return
        }
        guard let below = point.children[key] else { return }
        remove(id, keys.dropFirst(), from: below)
        if below.entries.isEmpty, below.children.isEmpty { point.children[key] = nil }
    }

    /// The point of a place, or nil where nothing is written at or below it.
    func point(at path: Path) -> Point? {
        var point = root
        for key in path.keys {
            guard let below = point.children[key] else { return nil }
            point = below
        }
        return point
    }

    /// Whether a later visible write decides the whole place, whatever this one says.
    func isShadowed(_ id: WriteID, at path: Path) -> Bool {
        var point = root
        var depth = 0
        while true {
            if point.entries.contains(where: { $0.id > id && $0.isVisible && !$0.isRelative }) { return true }
            guard depth < path.depth, let below = point.children[path[depth]] else { return false }
            point = below
            depth += 1
        }
    }
}

extension WriteTree.Point {
    /// Where the write is among the entries, or where it would go.
    func place(of id: WriteID) -> Int {
        // Nearly always the last.
        guard let last = entries.last, last.id >= id else { return entries.count }
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
