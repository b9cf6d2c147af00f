import Tree

/// A priority can't be given to what isn't there (reference: rtdb-protocol 4.4).
enum PriorityCheck {
    /// What is wrong with changes that are to be made together, if anything. Linear in their keys.
    static func problem(_ changes: [Change], in root: Node) -> String? {
        let homeless = changes.filter { change in
            guard change.path.namesPriority, !change.value.isNull, let parent = change.path.parent else { return false }
            return root[parent].isNull
        }
        guard !homeless.isEmpty else { return nil }
        let made = MadePlaces(changes)
        for change in homeless {
            guard let parent = change.path.parent, !made.touches(parent) else { continue }
            return "There is nothing at \(parent) that could have a priority."
        }
        return nil
    }
}

/// The places at which changes put something: a tree of their keys.
private struct MadePlaces {
    private struct Place {
        var children: [Key: Int] = [:]
        var isMade = false
    }
    private var places = [Place()]

    init(_ changes: [Change]) {
        for change in changes where !change.path.namesPriority && !change.value.isNull {
            var place = 0
            for key in change.path.keys {
                if let next = places[place].children[key] {
                    place = next
                } else {
                    places.append(Place())
                    places[place].children[key] = places.count - 1
                    place = places.count - 1
                }
            }
            places[place].isMade = true
        }
    }

    /// Whether anything is put at the path, above it or below it.
    func touches(_ path: Path) -> Bool {
        var place = 0
        for key in path.keys {
            if places[place].isMade { return true }
            guard let next = places[place].children[key] else { return false }
            place = next
        }
        // A place is only there for something at it or below it.
        return places.count > 1 || places[0].isMade
    }
}
