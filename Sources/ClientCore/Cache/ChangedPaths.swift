import Tree

/// The paths at and below a path at which data may have changed.
enum ChangedPaths {
    /// The path itself, with everything below it.
    case whole
    /// The one path given by these keys.
    case one(ArraySlice<Key>)
    case many([Key: ChangedPaths])

    static let nothing = ChangedPaths.many([:])

    init(_ path: Path) { self = path.isRoot ? .whole : .one(path.keys[...]) }

    var isWhole: Bool {
        if case .whole = self { true } else { false }
    }

    var isNothing: Bool {
        if case .many(let children) = self { children.isEmpty } else { false }
    }

    /// The children at or below which data may have changed; empty if the whole value may have.
    var keys: [Key] {
        switch self {
        case .whole: []
        case .one(let keys): [keys[keys.startIndex]]
        case .many(let children): Array(children.keys)
        }
    }

    /// The touched part of a child; nil if none.
    subscript(key: Key) -> ChangedPaths? {
        switch self {
        case .whole: return .whole
        case .one(let keys):
            guard keys.first == key else { return nil }
            return keys.count == 1 ? .whole : .one(keys.dropFirst())
        case .many(let children): return children[key]
        }
    }

    mutating func insert(_ path: Path) { insert(path.keys[...]) }

    private mutating func insert(_ keys: ArraySlice<Key>) {
        if case .whole = self { return }
        guard let key = keys.first else {
            self = .whole
            return
        }
        if case .many(let children) = self, children.isEmpty {
            self = .one(keys)
            return
        }
        var children: [Key: ChangedPaths]
        switch self {
        case .whole: return
        case .one(let first): children = [first[first.startIndex]: first.count == 1 ? .whole : .one(first.dropFirst())]
        case .many(let many): children = many
        }
        self = .nothing
        var below = children.removeValue(forKey: key) ?? .nothing
        below.insert(keys.dropFirst())
        children[key] = below
        self = .many(children)
    }

    /// Visits the touched paths, relative to this one.
    func forEachPath(_ body: (Path) -> Void) { forEach(Path(), body) }

    private func forEach(_ path: Path, _ body: (Path) -> Void) {
        switch self {
        case .whole: body(path)
        case .one(let keys): body(Path(path.keys + keys))
        case .many(let children): for (key, below) in children { below.forEach(path.appending(key), body) }
        }
    }
}
