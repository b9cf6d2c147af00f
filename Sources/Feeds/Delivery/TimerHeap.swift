/// Things to be done at certain times, the earliest first. Pure. What is not wanted any more stays in until its time: whoever takes it
/// has to see whether it still holds.
struct TimerHeap<Item: Sendable>: Sendable {
    private var entries: [(time: Int64, item: Item)] = []

    /// When the first is due.
    var earliest: Int64? { entries.first?.time }

    var count: Int { entries.count }

    mutating func add(_ item: Item, at time: Int64) {
        entries.append((time, item))
        rise(entries.count - 1)
    }

    /// Leaves only those that `isWanted`.
    mutating func keep(_ isWanted: (_ time: Int64, _ item: Item) -> Bool) {
        entries.removeAll { !isWanted($0.time, $0.item) }
        // What is in the order of its times is a heap.
        entries.sort { $0.time < $1.time }
    }

    private mutating func rise(_ last: Int) {
        var child = last
        while child > 0 {
            let parent = (child - 1) / 2
            guard entries[child].time < entries[parent].time else { return }
            entries.swapAt(child, parent)
            child = parent
        }
    }

    /// The first, if it is due by then.
    mutating func take(by now: Int64) -> (time: Int64, item: Item)? {
        guard let first = entries.first, first.time <= now else { return nil }
        let last = entries.removeLast()
        guard !entries.isEmpty else { return first }
        entries[0] = last
        var parent = 0
        while true {
            var least = parent
            let left = 2 * parent + 1
            if left < entries.count, entries[left].time < entries[least].time { least = left }
            if left + 1 < entries.count, entries[left + 1].time < entries[least].time { least = left + 1 }
            guard least != parent else { return first }
            entries.swapAt(parent, least)
            parent = least
        }
    }
}
