import Runtime

/// The partitions that a table is known to have, as of a while ago, in the transaction in which they were made or read.
struct KnownPartitions: Sendable {
    /// The days with which they begin.
    private(set) var firstDays: Set<Int> = []
    /// How many there are, those among them that begin otherwise.
    private(set) var count = 0
    /// When they are to be read again: somebody may have removed one.
    private var staleAt: UInt64 = 0
    /// Until when none is made, as making one has failed.
    private var restsUntil: UInt64 = 0

    private static let freshNanoseconds: UInt64 = 60_000_000_000
    private static let restNanoseconds: UInt64 = 10_000_000_000

    /// Whether they have to be read before `period` is made.
    func mustBeRead(at now: UInt64) -> Bool { now >= staleAt }

    /// Those of some periods that have no partition and may have one.
    func missing(_ periods: Set<PartitionPeriod>, at now: UInt64, upTo most: Int) -> [PartitionPeriod] {
        guard now >= restsUntil, count < most else { return [] }
        // The newest are those that are asked for most.
        return periods.filter { !firstDays.contains($0.first) }.sorted { $0.first > $1.first }
    }

    mutating func take(_ days: [Int?], at now: UInt64) {
        firstDays = Set(days.compactMap { $0 })
        count = days.count
        staleAt = now &+ Self.freshNanoseconds
    }

    /// Takes what is made, or is covered by another one.
    mutating func add(_ period: PartitionPeriod, isNew: Bool) {
        firstDays.insert(period.first)
        if isNew { count += 1 }
    }

    mutating func rest(at now: UInt64) { restsUntil = now &+ Self.restNanoseconds }
}
