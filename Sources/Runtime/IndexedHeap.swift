/// A priority queue whose keys can change their priority, or leave, at any time. The key with the least priority is first.
///
/// Every operation takes O(log n). Keys with equal priorities come in no particular order.
public struct IndexedHeap<Key: Hashable, Priority: Comparable> {
    private var entries: ContiguousArray<(key: Key, priority: Priority)> = []
    private var indices: [Key: Int] = [:]

    public init() {}

    /// Whether the queue has no keys.
    public var isEmpty: Bool { entries.isEmpty }
    /// The number of keys.
    public var count: Int { entries.count }

    /// The key with the least priority.
    public var first: (key: Key, priority: Priority)? { entries.first }

    /// Returns whether a key is in the queue.
    public func contains(_ key: Key) -> Bool { indices[key] != nil }

    /// Adds a key, or changes its priority.
    public mutating func set(_ key: Key, to priority: Priority) {
        guard let index = indices[key] else {
            entries.append((key, priority))
            indices[key] = entries.count - 1
            return moveUp(entries.count - 1)
        }
        let moves = priority < entries[index].priority
        entries[index].priority = priority
        if moves { moveUp(index) } else { moveDown(index) }
    }

    /// Removes a key.
    ///
    /// - Returns: Its priority; nil if the key was not there.
    @discardableResult
    public mutating func remove(_ key: Key) -> Priority? {
        guard let index = indices.removeValue(forKey: key) else { return nil }
        let removed = entries[index].priority
        let last = entries.removeLast()
        guard index < entries.count else { return removed }
        entries[index] = last
        indices[last.key] = index
        moveUp(index)
        if let index = indices[last.key] { moveDown(index) }
        return removed
    }

    /// Removes the key with the least priority.
    public mutating func popFirst() -> (key: Key, priority: Priority)? {
        guard let first = entries.first else { return nil }
        remove(first.key)
        return first
    }

    private mutating func moveUp(_ start: Int) {
        var child = start
        while child > 0 {
            let parent = (child - 1) / 2
            guard entries[child].priority < entries[parent].priority else { return }
            swap(child, parent)
            child = parent
        }
    }

    private mutating func moveDown(_ start: Int) {
        var parent = start
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < entries.count && entries[child].priority < entries[least].priority {
                least = child
            }
            guard least != parent else { return }
            swap(parent, least)
            parent = least
        }
    }

    private mutating func swap(_ left: Int, _ right: Int) {
        entries.swapAt(left, right)
        indices[entries[left].key] = left
        indices[entries[right].key] = right
    }
}

extension IndexedHeap: Sendable where Key: Sendable, Priority: Sendable {}
