/// Remembers a bounded number of values by key: the one not used for longest goes first.
struct RecentTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Entry: Sendable {
        var key: Key
        var value: Value
        /// Towards the more, and the less, recently used; -1 at the ends.
        var newer = -1
        var older = -1
    }

    private let capacity: Int
    private var places: [Key: Int] = [:]
    private var entries: [Entry] = []
    private var newest = -1
    private var oldest = -1

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    var count: Int { entries.count }

    /// Calls `body` with the key's value, which becomes the most recently used; a new one where there is none.
    mutating func with<R>(_ key: Key, new: @autoclosure () -> Value, _ body: (inout Value) -> R) -> R {
        let place = touch(key, new)
        return body(&entries[place].value)
    }

    private mutating func touch(_ key: Key, _ new: () -> Value) -> Int {
        if let place = places[key] {
            guard place != newest else { return place }
            unlink(place)
            link(place)
            return place
        }
        var place = entries.count
        if place < capacity {
            entries.append(Entry(key: key, value: new()))
        } else {
            place = oldest
            unlink(place)
            places[entries[place].key] = nil
            entries[place] = Entry(key: key, value: new())
        }
        places[key] = place
        link(place)
        return place
    }

    private mutating func unlink(_ place: Int) {
        let (newer, older) = (entries[place].newer, entries[place].older)
        if newer >= 0 { entries[newer].older = older } else { newest = older }
        if older >= 0 { entries[older].newer = newer } else { oldest = newer }
    }

    private mutating func link(_ place: Int) {
        entries[place].newer = -1
        entries[place].older = newest
        if newest >= 0 { entries[newest].newer = place } else { oldest = place }
        newest = place
    }
}
