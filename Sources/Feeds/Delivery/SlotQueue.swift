/// Slots that wait in the order of their turns: taken from the front, added at the back, and put back where they belong.
struct SlotQueue {
    private var slots: ContiguousArray<FeedMachine.Slot?> = []
    private var head = 0

    var isEmpty: Bool { head == slots.count }
    var count: Int { slots.count - head }
    var first: FeedMachine.Slot? { isEmpty ? nil : slots[head] }

    /// The first that meets a condition. O(those before it).
    func first(where isWanted: (FeedMachine.Slot) -> Bool) -> FeedMachine.Slot? {
        for slot in slots[head...] { if let slot, isWanted(slot) { return slot } }
        return nil
    }

    mutating func popFirst() -> FeedMachine.Slot? {
        guard head < slots.count else { return nil }
        let slot = slots[head]
        // What has left keeps nothing in memory.
        slots[head] = nil
        head += 1
        if head == slots.count {
            slots.removeAll(keepingCapacity: slots.count <= 64)
            head = 0
        } else if head >= 1_024, head * 2 >= slots.count {
            slots.removeFirst(head)
            head = 0
        }
        return slot
    }

    /// Puts a slot where it belongs: mostly at the back, or back to the front.
    mutating func insert(_ slot: FeedMachine.Slot) {
        let turn = slot.turn
        if isEmpty || isBefore(slots.count - 1, turn) { return slots.append(slot) }
        if head > 0, !isBefore(head, turn) {
            head -= 1
            slots[head] = slot
            return
        }
        var low = head
        var high = slots.count
        while low < high {
            let middle = (low + high) / 2
            if isBefore(middle, turn) { low = middle + 1 } else { high = middle }
        }
        slots.insert(slot, at: low)
    }

    /// Takes those out that are not `isWanted`; returns them, in order.
    @discardableResult
    mutating func keep(_ isWanted: (FeedMachine.Slot) -> Bool) -> [FeedMachine.Slot] {
        let all = slots[head...].compactMap { $0 }
        let gone = all.filter { !isWanted($0) }
        guard !gone.isEmpty else { return [] }
        slots = ContiguousArray(all.filter(isWanted))
        head = 0
        return gone
    }

    /// Takes all out, in order.
    mutating func takeAll() -> [FeedMachine.Slot] {
        defer { removeAll() }
        return slots[head...].compactMap { $0 }
    }

    mutating func removeAll() {
        slots.removeAll()
        head = 0
    }

    private func isBefore(_ index: Int, _ turn: FeedMachine.Turn) -> Bool {
        slots[index].map { $0.turn < turn } ?? true
    }
}
