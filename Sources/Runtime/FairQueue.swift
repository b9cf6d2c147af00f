/// Items that wait for one of a fixed number of slots, served fairly: first between groups, then between the members of
/// a group.
///
/// `FairLedger` holds the rule for both bounds: the items in service and the waiting items. Among the members that may
/// take a slot, the queue serves the group and the member with the fewest items in service, and among equals the one
/// that was served longest ago. Each member's items leave in the order of their arrival, urgent ones first.
/// `expire` returns the items that have waited past their deadline.
///
/// Every operation takes O(log n). The queue is a value without locks, clocks or I/O; its owner calls `finish` once for
/// each item that `next` returned.
public struct FairQueue<Group: Hashable & Sendable, Member: Hashable & Sendable, Item> {
    /// Identifies an item that waits.
    public struct Ticket: Hashable, Sendable {
        fileprivate let number: UInt64
    }

    /// An item that has a slot now.
    public struct Served {
        public let item: Item
        public let group: Group
        public let member: Member
    }

    fileprivate struct Waiting {
        let item: Item
        let group: Group
        let member: Member
    }

    /// The order of service: fewest items in service first, then longest unserved.
    private struct Turn: Comparable {
        let inService: Int
        let servedAt: UInt64

        static func < (left: Turn, right: Turn) -> Bool {
            (left.inService, left.servedAt) < (right.inService, right.servedAt)
        }
    }

    /// The order of one member's items.
    private struct Arrival: Comparable {
        let isUrgent: Bool
        let number: UInt64

        static func < (left: Arrival, right: Arrival) -> Bool {
            left.isUrgent != right.isUrgent ? left.isUrgent : left.number < right.number
        }
    }

    private struct Line {
        var arrivals = IndexedHeap<Ticket, Arrival>()
        /// A new line counts as served just now. Otherwise a member with one item at a time would always overtake the
        /// others.
        var servedAt: UInt64
    }

    private struct GroupLine {
        var members = IndexedHeap<Member, Turn>()
        var lines: [Member: Line] = [:]
        var servedAt: UInt64
    }

    private var slots: FairLedger<Group, Member>
    private var room: FairLedger<Group, Member>
    private var waiting: [Ticket: Waiting] = [:]
    private var groups = IndexedHeap<Group, Turn>()
    private var lines: [Group: GroupLine] = [:]
    private var deadlines = IndexedHeap<Ticket, Milliseconds>()
    /// Numbers arrivals and services.
    private var lastNumber: UInt64 = 0

    /// - Parameters:
    ///   - slots: The items that may be in service at once.
    ///   - capacity: The items that may wait at once.
    public init(slots: Int, capacity: Int) {
        self.slots = FairLedger(capacity: slots)
        self.room = FairLedger(capacity: capacity)
    }

    /// The number of items that wait.
    public var count: Int { waiting.count }
    /// The number of items in service.
    public var inService: Int { slots.used }
    /// The earliest deadline of an item that waits.
    public var nextDeadline: Milliseconds? { deadlines.first?.priority }

    /// Returns the number of a group's items in service.
    public func inService(of group: Group) -> Int { slots.held(by: group) }

    /// Queues an item for a slot.
    ///
    /// - Parameters:
    ///   - isUrgent: Whether the item overtakes the other items of its member.
    ///   - deadline: The time, by the owner's clock, after which `expire` returns the item.
    /// - Returns: Nil if the waiting items of the member or its group have reached their limit. The item is not kept
    ///   then.
    public mutating func add(
        _ item: Item, for member: Member, of group: Group, isUrgent: Bool = false, deadline: Milliseconds? = nil
    ) -> Ticket? {
        guard room.take(for: member, of: group) else { return nil }
        lastNumber += 1
        let ticket = Ticket(number: lastNumber)
        waiting[ticket] = Waiting(item: item, group: group, member: member)
        if let deadline { deadlines.set(ticket, to: deadline) }
        lines[group, default: GroupLine(servedAt: lastNumber)].lines[member, default: Line(servedAt: lastNumber)]
            .arrivals
            .set(ticket, to: Arrival(isUrgent: isUrgent, number: lastNumber))
        arrange(member, of: group)
        return ticket
    }

    /// Takes the next item into service.
    ///
    /// - Returns: Nil if nothing waits, or if no slot may be taken by any item that waits.
    public mutating func next() -> Served? {
        guard let group = groups.first?.key, let line = lines[group], let member = line.members.first?.key,
            slots.allows(for: member, of: group), let ticket = line.lines[member]?.arrivals.first?.key,
            let served = waiting[ticket]
        else { return nil }
        lastNumber += 1
        lines[group]?.servedAt = lastNumber
        lines[group]?.lines[member]?.servedAt = lastNumber
        slots.charge(1, to: member, of: group)
        leave(ticket, served)
        return Served(item: served.item, group: group, member: member)
    }

    /// Ends the service of an item.
    public mutating func finish(_ member: Member, of group: Group) {
        slots.release(by: member, of: group)
        arrange(member, of: group)
    }

    /// Removes an item that waits.
    ///
    /// - Returns: Nil if the item does not wait any more.
    public mutating func remove(_ ticket: Ticket) -> Item? {
        guard let found = waiting[ticket] else { return nil }
        leave(ticket, found)
        return found.item
    }

    /// Removes the items whose deadline has passed, in the order of their deadlines.
    public mutating func expire(at now: Milliseconds) -> [Item] {
        var expired: [Item] = []
        while let (ticket, deadline) = deadlines.first, deadline <= now {
            if let item = remove(ticket) { expired.append(item) } else { deadlines.remove(ticket) }
        }
        return expired
    }

    /// Removes all items that wait, in the order of their arrival.
    public mutating func removeAll() -> [Item] {
        waiting.keys.sorted { $0.number < $1.number }.compactMap { remove($0) }
    }

    private mutating func leave(_ ticket: Ticket, _ item: Waiting) {
        waiting[ticket] = nil
        deadlines.remove(ticket)
        room.release(by: item.member, of: item.group)
        lines[item.group]?.lines[item.member]?.arrivals.remove(ticket)
        arrange(item.member, of: item.group)
    }

    /// Updates the order of a member and its group after a change. A group's turn is that of its first member, because
    /// the rule counts both.
    private mutating func arrange(_ member: Member, of group: Group) {
        guard let line = lines[group]?.lines[member] else {
            // An item of the member may have ended, which concerns the other members of the group.
            return arrange(group)
        }
        if line.arrivals.isEmpty {
            lines[group]?.members.remove(member)
            lines[group]?.lines[member] = nil
        } else {
            lines[group]?.members.set(
                member, to: Turn(inService: slots.held(by: member, of: group), servedAt: line.servedAt))
        }
        arrange(group)
    }

    private mutating func arrange(_ group: Group) {
        guard let line = lines[group] else { return }
        guard let member = line.members.first?.key else {
            groups.remove(group)
            lines[group] = nil
            return
        }
        groups.set(
            group, to: Turn(inService: slots.freeUnitsNeeded(by: member, of: group), servedAt: line.servedAt))
    }
}

extension FairQueue: Sendable where Item: Sendable {}
extension FairQueue.Waiting: Sendable where Item: Sendable {}
extension FairQueue.Served: Sendable where Item: Sendable {}
