/// Items that are due at certain times, the earliest first. Pure.
/// Obsolete items stay until their time; the caller of `take` checks whether an item still applies.
///
/// Most items are added in the order of their times and go to a queue at a constant cost; the others go to a heap.
struct TimerHeap<Item> {
    private typealias Entry = (time: Int64, item: Item)

    /// The items that were added in order, from `head` on.
    private var inOrder: ContiguousArray<Entry> = []
    private var head = 0
    private var heap: ContiguousArray<Entry> = []

    /// The time at which the first item is due.
    var earliest: Int64? {
        let first = head < inOrder.count ? inOrder[head].time : nil
        guard let other = heap.first?.time else { return first }
        return first.map { min($0, other) } ?? other
    }

    var isEmpty: Bool { head == inOrder.count && heap.isEmpty }
    var count: Int { inOrder.count - head + heap.count }

    mutating func add(_ item: Item, at time: Int64) {
        if head == inOrder.count || inOrder[inOrder.count - 1].time <= time {
            inOrder.append((time, item))
        } else {
            heap.append((time, item))
            rise(heap.count - 1)
        }
    }

    /// Removes and returns the first item if it is due.
    mutating func take(by now: Int64) -> (time: Int64, item: Item)? {
        guard head < inOrder.count else { return takeFromHeap(by: now) }
        if let other = heap.first?.time, other < inOrder[head].time { return takeFromHeap(by: now) }
        guard inOrder[head].time <= now else { return nil }
        let entry = inOrder[head]
        head += 1
        if head == inOrder.count {
            inOrder.removeAll(keepingCapacity: true)
            head = 0
        } else if head >= 1_024, head * 2 >= inOrder.count {
            inOrder.removeFirst(head)
            head = 0
        }
        return entry
    }

    /// Removes the items that do not meet the condition.
    mutating func keep(_ isWanted: (_ time: Int64, _ item: Item) -> Bool) {
        inOrder.removeFirst(head)
        head = 0
        inOrder.removeAll { !isWanted($0.time, $0.item) }
        heap.removeAll { !isWanted($0.time, $0.item) }
        // A sorted array is a valid heap.
        heap.sort { $0.time < $1.time }
    }

    private mutating func rise(_ last: Int) {
        var child = last
        while child > 0 {
            let parent = (child - 1) / 2
            guard heap[child].time < heap[parent].time else { return }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    private mutating func takeFromHeap(by now: Int64) -> Entry? {
        guard let first = heap.first, first.time <= now else { return nil }
        let last = heap.removeLast()
        guard !heap.isEmpty else { return first }
        heap[0] = last
        var parent = 0
        while true {
            var least = parent
            let left = 2 * parent + 1
            if left < heap.count, heap[left].time < heap[least].time { least = left }
            if left + 1 < heap.count, heap[left + 1].time < heap[least].time { least = left + 1 }
            guard least != parent else { return first }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
