import Tree

// Which listeners a change touches. The index is a tree of paths; each place of the tree has the listeners at its path:
//
//     /                       L1
//     +-- rooms
//     |   +-- r1              L2
//     |       +-- messages    L3
//     +-- users               L4
//
//     change at /rooms/r1     touches L1 (above), L2 (at the path) and L3 (below)
//     change at /rooms/r2     touches L1: the index has no place for r2
//     change at /rooms        touches L1, L2 and L3
//
// `forEachTouched` walks from the root along the change's path and calls each listener on the way, then all listeners
// below the path. The cost grows with the keys of the path and with the places below it, and not with the rest of the
// index. `remove` drops a place that has neither listeners nor children. The index has no lock: `Published` owns one index
// per namespace and locks it together with the snapshot.

/// Hears of every change at, above or below its path. One object serves all connections that look at the same path,
/// query and form.
public protocol ChangeListener: AnyObject, Sendable {
    /// Steps that touch the listener's path, in order, each once. Called on committer threads, never on two at a time for
    /// one namespace; must return soon.
    func changed(_ steps: [Step])
    /// The steps between what was last told and `snapshot` are not known: begin again from it.
    func reset(to snapshot: Snapshot)
    /// The namespace has new rules; what may be read may be another part of it now.
    func rulesChanged(in snapshot: Snapshot)
    /// The namespace is no more, or another has its name: nothing is told any more. Who wants to know has to ask anew.
    func ended()
}

/// Finds the listeners that a change touches: a tree of paths with the listeners at each. A value; its owner locks.
struct ListenerIndex {
    private final class Place {
        var children: [Key: Place] = [:]
        var listeners: [ObjectIdentifier: any ChangeListener] = [:]
        var isEmpty: Bool { children.isEmpty && listeners.isEmpty }
    }

    private let root = Place()
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func add(_ listener: any ChangeListener, at path: Path) {
        var place = root
        for key in path.keys {
            if let next = place.children[key] {
                place = next
            } else {
                let next = Place()
                place.children[key] = next
                place = next
            }
        }
        if place.listeners.updateValue(listener, forKey: ObjectIdentifier(listener)) == nil { count += 1 }
    }

    mutating func remove(_ listener: any ChangeListener, at path: Path) {
        var places = [root]
        for key in path.keys {
            guard let next = places[places.count - 1].children[key] else { return }
            places.append(next)
        }
        if places[places.count - 1].listeners.removeValue(forKey: ObjectIdentifier(listener)) != nil { count -= 1 }
        for index in stride(from: places.count - 1, to: 0, by: -1) where places[index].isEmpty {
            places[index - 1].children[path[index - 1]] = nil
        }
    }

    /// The listeners that a replacement at `path` touches: at the path, above it, and below it. A priority has its own
    /// path, and nothing below it.
    func forEachTouched(by path: Path, _ body: (any ChangeListener) -> Void) {
        var place = root
        for key in path.keys {
            for listener in place.listeners.values { body(listener) }
            guard let next = place.children[key] else { return }
            place = next
        }
        Self.forEach(in: place, body)
    }

    /// Every listener.
    var all: [any ChangeListener] {
        var found: [any ChangeListener] = []
        Self.forEach(in: root) { found.append($0) }
        return found
    }

    private static func forEach(in place: Place, _ body: (any ChangeListener) -> Void) {
        for listener in place.listeners.values { body(listener) }
        for child in place.children.values { forEach(in: child, body) }
    }
}
