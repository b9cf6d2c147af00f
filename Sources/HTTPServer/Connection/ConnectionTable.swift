/// The connections of one loop by id: an index and the generation of its slot, so that an id that outlived its
/// connection finds nothing. Every operation is O(1).
struct ConnectionTable {
    private var slots: [Connection?] = []
    private var generations: [UInt32] = []
    private var free: [Int] = []

    /// Connections in the table.
    private(set) var count = 0

    /// Puts the connection that `make` builds for its id into the table.
    mutating func insert(_ make: (UInt64) -> Connection) -> Connection {
        let index: Int
        if let reused = free.popLast() {
            index = reused
        } else {
            index = slots.count
            slots.append(nil)
            generations.append(0)
        }
        let connection = make(UInt64(generations[index]) << 32 | UInt64(index))
        slots[index] = connection
        count += 1
        return connection
    }

    mutating func remove(_ id: UInt64) {
        let index = Int(id & 0xFFFF_FFFF)
        guard self[id] != nil else { return }
        slots[index] = nil
        generations[index] &+= 1
        free.append(index)
        count -= 1
    }

    subscript(id: UInt64) -> Connection? {
        let index = Int(id & 0xFFFF_FFFF)
        guard index < slots.count, generations[index] == UInt32(truncatingIfNeeded: id >> 32) else { return nil }
        return slots[index]
    }

    /// All connections, in no order that means anything. O(slots).
    var all: [Connection] { slots.compactMap { $0 } }
}
