import Tree

/// The places that a write touches, for asking whether another write could have been made before or after it with the same
/// result.
struct TouchedPaths {
    private final class Place {
        var children: [Key: Place] = [:]
        var isTouched = false
    }

    private let root = Place()
    /// First keys of places where something is removed: what that leaves empty goes, with its priority.
    private var emptied: Set<Key> = []
    private var first: Set<Key> = []

    /// - Parameter changes: with their server values filled in.
    init(_ changes: [Change]) {
        for change in changes {
            var place = root
            for key in Self.keys(of: change) {
                if let child = place.children[key] {
                    place = child
                } else {
                    let child = Place()
                    place.children[key] = child
                    place = child
                }
            }
            place.isTouched = true
            guard let key = change.path.keys.first else { continue }
            first.insert(key)
            if change.value.isNull { emptied.insert(key) }
        }
    }

    /// Whether the order of this write and a change of another one could matter. In doubt it says that it could.
    func conflicts(with change: Change) -> Bool {
        let keys = Self.keys(of: change)
        guard let key = keys.first else { return true }
        if emptied.contains(key) || (change.value.isNull && first.contains(key)) { return true }
        var place = root
        for key in keys {
            if place.isTouched { return true }
            guard let child = place.children[key] else { return false }
            place = child
        }
        // Something at or below it is touched.
        return true
    }

    /// A priority belongs to what it is the priority of.
    private static func keys(of change: Change) -> ArraySlice<Key> {
        change.path.namesPriority ? change.path.keys.dropLast() : change.path.keys[...]
    }
}
