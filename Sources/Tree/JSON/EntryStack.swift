/// The finished children of all objects that a parser has open: each object owns the top part. Children move in and
/// out again without being counted or copied. An empty one holds no memory.
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

    /// The order of the last entry's key to `key`.
    @inline(__always)
    func orderOfLast(against key: Key) -> Int {
        entries[count - 1].key.order(against: key)
    }

    /// Puts an entry among the sorted ones from `base` on; it replaces one of the same key, and null takes that out.
    mutating func place(_ entry: consuming ChildMap.Entry, from base: Int) {
        let (offset, isFound) = UnsafeBufferPointer(rebasing: entries[base..<count]).place(of: entry.key)
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

    private func moveRest(from index: Int, to place: Int) {
        guard index < count else { return }
        _ = UnsafeMutableBufferPointer(rebasing: entries[place...])
            .moveInitialize(fromContentsOf: UnsafeMutableBufferPointer(rebasing: entries[index..<count]))
    }

    /// Gives the last entry of that key from `base` on a priority. False where there is none.
    mutating func prioritize(_ key: Key, _ priority: Node, from base: Int) -> Bool {
        guard let index = entries[base..<count].lastIndex(where: { $0.key == key }) else { return false }
        entries[index] = .init(key: key, node: entries[index].node.withPriority(priority))
        return true
    }

    /// Lets `body` change each entry, but not its key.
    mutating func changeEach(_ body: (inout ChildMap.Entry) -> Void) {
        for index in 0..<count { body(&entries[index]) }
    }

    /// Takes out all entries from `base` on.
    mutating func take(from base: Int) -> ContiguousArray<ChildMap.Entry> {
        // Not by the initialiser that lends uninitialized memory: that one is not specialized and looks its types up.
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
