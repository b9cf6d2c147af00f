import Tree

// Finds the listeners that a change touches. The index is a tree of paths; each node of the tree has the listeners at
// its path:
//
//     /                       L1
//     +-- rooms
//     |   +-- r1              L2
//     |       +-- messages    L3
//     +-- users               L4
//
//     change at /rooms/r1     touches L1 (above), L2 (at the path) and L3 (below)
//     change at /rooms/r2     touches L1: the index has no node for r2
//     change at /rooms        touches L1, L2 and L3
//
// `forEachTouched` walks from the root along the change's path and calls each listener on the way, then all listeners
// below the path. The cost grows with the keys of the path and with the nodes below it, and not with the rest of the
// index. `remove` drops a node that has neither listeners nor children.
// The index has no lock: `PublishedSnapshot` owns one index per namespace and locks it together with the snapshot.

/// Receives every change at, above or below its path. One object serves all connections that listen to the same path,
/// query and form.
public protocol ChangeListener: AnyObject, Sendable {
    /// Receives the steps that touch the listener's path, in order, each once. Called on committers' threads, never on
    /// two at a time for one namespace; must return soon.
    func changed(_ steps: [Step])
    /// Restarts from `snapshot`, because the steps before it are unknown.
    func reset(to snapshot: Snapshot)
    /// Receives a snapshot with new rules, which may permit reading other parts of the namespace.
    func rulesChanged(in snapshot: Snapshot)
    /// Ends the listener: the namespace was removed, or another one has its name. Clients have to request the name
    /// again.
    func ended()
}

/// Finds the listeners that a change touches: a tree of paths with the listeners at each path. A value; its owner
/// locks.
struct ListenerIndex {
    private final class Level {
        var children: [Key: Level] = [:]
        var listeners: [ObjectIdentifier: any ChangeListener] = [:]
        var isEmpty: Bool { children.isEmpty && listeners.isEmpty }
    }

    private let root = Level()
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func add(_ listener: any ChangeListener, at path: Path) {
        var level = root
        for key in path.keys {
            if let next = level.children[key] {
                level = next
            } else {
                let next = Level()
                level.children[key] = next
                level = next
            }
        }
        if level.listeners.updateValue(listener, forKey: ObjectIdentifier(listener)) == nil { count += 1 }
    }

    mutating func remove(_ listener: any ChangeListener, at path: Path) {
        var levels = [root]
        for key in path.keys {
            guard let next = levels[levels.count - 1].children[key] else { return }
            levels.append(next)
        }
        if levels[levels.count - 1].listeners.removeValue(forKey: ObjectIdentifier(listener)) != nil { count -= 1 }
        for index in stride(from: levels.count - 1, to: 0, by: -1) where levels[index].isEmpty {
            levels[index - 1].children[path[index - 1]] = nil
        }
    }

    /// Calls the listeners that a replacement at `path` touches: at the path, above it, and below it. A priority has
    /// its own path, and nothing below it.
    func forEachTouched(by path: Path, _ body: (any ChangeListener) -> Void) {
        var level = root
        for key in path.keys {
            for listener in level.listeners.values { body(listener) }
            guard let next = level.children[key] else { return }
            level = next
        }
        Self.forEach(in: level, body)
    }

    var all: [any ChangeListener] {
        var found: [any ChangeListener] = []
        Self.forEach(in: root) { found.append($0) }
        return found
    }

    private static func forEach(in level: Level, _ body: (any ChangeListener) -> Void) {
        for listener in level.listeners.values { body(listener) }
        for child in level.children.values { forEach(in: child, body) }
    }
}
