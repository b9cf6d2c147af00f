/// The partitions that a table is known to have, as of a while ago, in the transaction in which they were made or read.
struct KnownPartitions: Sendable {
    /// The days with which they begin.
    private(set) var firstDays: Set<Int> = []
    /// How many there are, those among them that begin otherwise.
    private var count = 0
    /// The most that there may be.
    private var most = 0
    /// Periods that rows have come for and that have no partition yet.
    private var wanted: Set<PartitionPeriod> = []
    /// How many were made in the step that begins behind an entry.
    private var madeInStep = 0
    private var step: Int64 = -1
    /// When they are to be read again: somebody may have removed one.
    private var staleAt: UInt64 = 0
    /// Until when none is made, as making one has failed.
    private var restsUntil: UInt64 = 0

    private static let freshNanoseconds: UInt64 = 60_000_000_000
    private static let restNanoseconds: UInt64 = 10_000_000_000
    /// Each takes locks until its transaction ends, and keeps the mirror from going on for some milliseconds.
    static let mostInStep = 50

    func mustBeRead(at now: UInt64) -> Bool { now >= staleAt }

    /// Takes what the table has.
    mutating func take(_ days: [Int?], upTo most: Int, at now: UInt64) {
        firstDays = Set(days.compactMap { $0 })
        count = days.count
        self.most = most
        wanted = wanted.filter { !firstDays.contains($0.first) }
        staleAt = now &+ Self.freshNanoseconds
    }

    /// What is to be made now, of the periods that rows come for and of those that rows have come for before; the newest first, as
    /// those are asked for most.
    ///
    /// - Parameter step: the entry behind which the step begins; nil where each one is made in a transaction of its own.
    mutating func toBeMade(for periods: Set<PartitionPeriod>, at now: UInt64, in step: Int64?) -> [PartitionPeriod] {
        var left = most - count
        guard left > 0 else {
            wanted = []
            return []
        }
        for period in periods where !firstDays.contains(period.first) && wanted.count < left { wanted.insert(period) }
        guard now >= restsUntil, !wanted.isEmpty else { return [] }
        if let step {
            if step != self.step { madeInStep = 0 }
            self.step = step
            left = min(left, Self.mostInStep - madeInStep)
        }
        return Array(wanted.sorted { $0.first > $1.first }.prefix(max(0, left)))
    }

    /// Takes what was made, or is covered by another one.
    mutating func add(_ period: PartitionPeriod, isNew: Bool) {
        firstDays.insert(period.first)
        wanted.remove(period)
        if isNew {
            count += 1
            madeInStep += 1
        }
    }

    mutating func rest(at now: UInt64) { restsUntil = now &+ Self.restNanoseconds }
}
