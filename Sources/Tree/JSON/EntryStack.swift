/// The finished children of all objects that a parser has open. Each object owns the top part. Children move in and out without
/// reference counting or copying. An empty stack holds no memory.
struct EntryStack: ~Copyable {
    private var entries = UnsafeMutableBufferPointer<ChildMap.Entry>(start: nil, count: 0)
    private(set) var count = 0

    init() {}

    deinit {
        entries[..<count].deinitialize()
        entries.deallocate()
    }

    @inline(__always)
    mutating func append(_ entry: consuming ChildMap.Entry) {
        if count == entries.count { grow() }
        entries.initializeElement(at: count, to: entry)
        count += 1
    }

    /// Returns the order of the last entry's key relative to `key`.
    @inline(__always)
    func orderOfLast(against key: Key) -> Int {
        entries[count - 1].key.order(against: key)
    }

    /// Inserts an entry into the sorted entries from `base` on. Replaces an entry with the same key; null removes it.
    mutating func insert(_ entry: consuming ChildMap.Entry, from base: Int) {
        let (offset, isFound) = UnsafeBufferPointer(rebasing: entries[base..<count]).position(of: entry.key)
        let index = base + offset
        if entry.node.isNull {
            guard isFound else { return }
            entries.deinitializeElement(at: index)
            moveRest(from: index + 1, to: index)
            count -= 1
        } else if isFound {
            entries[index] = entry
        } else {
            if count == entries.count { grow() }
            moveRest(from: index, to: index + 1)
            entries.initializeElement(at: index, to: entry)
            count += 1
        }
    }

    private func moveRest(from index: Int, to target: Int) {
        guard index < count else { return }
        _ = UnsafeMutableBufferPointer(rebasing: entries[target...])
            .moveInitialize(fromContentsOf: UnsafeMutableBufferPointer(rebasing: entries[index..<count]))
    }

    /// Sets the priority of the last entry with that key from `base` on. Returns false if there is none.
    mutating func prioritize(_ key: Key, _ priority: Node, from base: Int) -> Bool {
        guard let index = entries[base..<count].lastIndex(where: { $0.key == key }) else { return false }
        entries[index] = .init(key: key, node: entries[index].node.withPriority(priority))
        return true
    }

    /// Calls `body` to change each entry. The keys must not change.
    mutating func changeEach(_ body: (inout ChildMap.Entry) -> Void) {
        for index in 0..<count { body(&entries[index]) }
    }

    /// Removes all entries from `base` on, and returns them.
    mutating func take(from base: Int) -> ContiguousArray<ChildMap.Entry> {
        // Array's initializer with uninitialized memory is not used: it is not specialized and looks up its types at run time.
        var taken = ContiguousArray<ChildMap.Entry>()
        taken.reserveCapacity(count - base)
        for index in base..<count { taken.append(entries.moveElement(from: index)) }
        count = base
        return taken
    }

    private mutating func grow() {
        let larger = UnsafeMutableBufferPointer<ChildMap.Entry>.allocate(capacity: max(16, entries.count * 2))
        _ = larger.moveInitialize(fromContentsOf: entries[..<count])
        entries.deallocate()
        entries = larger
    }
}
