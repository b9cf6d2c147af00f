/// The finished children of all objects that a parser has open: each object owns the top part. Children move in and
/// out again without being counted or copied.
struct EntryStack: ~Copyable {
    private var entries: UnsafeMutablePointer<ChildMap.Entry>
    private var capacity = 16
    private(set) var count = 0

    init() {
        entries = .allocate(capacity: capacity)
    }

    deinit {
        entries.deinitialize(count: count)
        entries.deallocate()
    }

    @inline(__always)
    mutating func append(_ entry: consuming ChildMap.Entry) {
        if count == capacity { grow() }
        (entries + count).initialize(to: entry)
        count += 1
    }

    /// The order of the last entry's key to `key`.
    @inline(__always)
    func orderOfLast(against key: Key) -> Int {
        entries[count - 1].key.order(against: key)
    }

    /// Puts an entry among the sorted ones from `base` on; it replaces one of the same key, and null takes that out.
    mutating func place(_ entry: consuming ChildMap.Entry, from base: Int) {
        let (offset, isFound) = UnsafeBufferPointer(start: entries + base, count: count - base).place(of: entry.key)
        let index = base + offset
        if entry.node.isNull {
            guard isFound else { return }
            (entries + index).deinitialize(count: 1)
            (entries + index).moveInitialize(from: entries + index + 1, count: count - index - 1)
            count -= 1
        } else if isFound {
            entries[index] = entry
        } else {
            if count == capacity { grow() }
            (entries + index + 1).moveInitialize(from: entries + index, count: count - index)
            (entries + index).initialize(to: entry)
            count += 1
        }
    }

    /// Takes out all entries from `base` on.
    mutating func take(from base: Int) -> ContiguousArray<ChildMap.Entry> {
        // Not by the initialiser that lends uninitialized memory: that one is not specialized and looks its types up.
        var taken = ContiguousArray<ChildMap.Entry>()
        taken.reserveCapacity(count - base)
        for index in base..<count { taken.append((entries + index).move()) }
        count = base
        return taken
    }

    private mutating func grow() {
        let larger = UnsafeMutablePointer<ChildMap.Entry>.allocate(capacity: capacity * 2)
        larger.moveInitialize(from: entries, count: count)
        entries.deallocate()
        entries = larger
        capacity *= 2
    }
}
