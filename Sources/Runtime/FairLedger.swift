/// Accounts for a bounded resource that groups share, and that the members of each group share.
///
/// In this gateway a group is a namespace, and a member is mostly a feed of that namespace. The resource is counted in
/// units: slots, seats or bytes.
///
/// A member may take one more unit while the units of its group, plus twice its own units, are fewer than the free
/// units. The rule has no fixed quotas:
/// - one member alone gets a quarter of the capacity, and one group with many members gets half of it;
/// - `n` busy groups get `1 / (n + 1)` of the capacity each;
/// - some units always stay free, so a group that holds nothing gets units at once. The last unit goes to such a group
///   only.
///
/// All operations take constant time. The ledger is a value without locks, clocks or I/O.
public struct FairLedger<Group: Hashable & Sendable, Member: Hashable & Sendable>: Sendable {
    private struct Holdings: Sendable {
        var total = 0
        var members: [Member: Int] = [:]
    }

    /// The units that exist.
    public let capacity: Int
    /// The units that are taken. More than `capacity` only after `charge`.
    public private(set) var used = 0
    private var groups: [Group: Holdings] = [:]

    /// - Parameter capacity: The units that exist. At least one.
    public init(capacity: Int) { self.capacity = max(1, capacity) }

    /// The units that are not taken. Never negative.
    public var free: Int { max(0, capacity - used) }

    /// The number of groups that hold something.
    public var groupCount: Int { groups.count }

    /// The units that a group holds.
    public func held(by group: Group) -> Int { groups[group]?.total ?? 0 }

    /// The units that a member holds.
    public func held(by member: Member, of group: Group) -> Int { groups[group]?.members[member] ?? 0 }

    /// The free units that must exist before a member may take its next one.
    public func freeUnitsNeeded(by member: Member, of group: Group) -> Int {
        held(by: group) + 2 * held(by: member, of: group) + 1
    }

    /// Returns whether a member may take some units now.
    ///
    /// - Parameter amount: The units to take, at least one. The rule applies to each of them, so an amount over a
    ///   quarter of the capacity is never allowed: see `charge`.
    public func allows(_ amount: Int = 1, for member: Member, of group: Group) -> Bool {
        guard amount <= capacity else { return false }
        // Taking units one by one changes both sides: after k of them the group and the member hold k more, and k fewer
        // are free.
        return freeUnitsNeeded(by: member, of: group) + 4 * (max(1, amount) - 1) <= free
    }

    /// Takes units for a member if the rule allows it.
    ///
    /// - Returns: False, with nothing taken, if the rule does not allow it.
    public mutating func take(_ amount: Int = 1, for member: Member, of group: Group) -> Bool {
        guard allows(amount, for: member, of: group) else { return false }
        charge(amount, to: member, of: group)
        return true
    }

    /// Takes units for a member without checking the rule: for a first item that must be admitted at any size, and for
    /// costs that are known only afterwards.
    public mutating func charge(_ amount: Int, to member: Member, of group: Group) {
        guard amount > 0 else { return }
        used += amount
        groups[group, default: Holdings()].total += amount
        groups[group, default: Holdings()].members[member, default: 0] += amount
    }

    /// Returns units that a member has taken. Units beyond those that the member holds are ignored.
    public mutating func release(_ amount: Int = 1, by member: Member, of group: Group) {
        guard var holdings = groups.removeValue(forKey: group) else { return }
        let held = holdings.members[member] ?? 0
        let released = min(held, max(0, amount))
        holdings.members[member] = held == released ? nil : held - released
        holdings.total -= released
        used -= released
        if holdings.total > 0 { groups[group] = holdings }
    }

    /// Returns all units that a member holds.
    public mutating func releaseAll(by member: Member, of group: Group) {
        release(held(by: member, of: group), by: member, of: group)
    }
}
