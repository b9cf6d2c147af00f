/// The partitions that a table is known to have, as of a while ago, and those that it should have.
struct KnownPartitions: Sendable {
    /// The days with which they begin.
    private var firstDays: Set<Int> = []
    /// Those that can't be, as somebody has made a partition that goes over a part of them.
    private var covered: Set<Int> = []
    /// How many there are, those among them that begin otherwise.
    private var count = 0
    /// The most that there may be; nil where nobody has looked yet.
    private var most: Int?
    /// Periods that rows have come for and that have no partition yet.
    private var wanted: Set<PartitionPeriod> = []
    /// When they are to be read again: somebody may have removed one.
    private var staleAt: UInt64 = 0
    /// Until when none is made, as making one has failed.
    private var restsUntil: UInt64 = 0
    /// Why none could be made the last time, in the server's words; nil where nothing was wrong.
    private(set) var refusal: String?

    private static let freshNanoseconds: UInt64 = 60_000_000_000
    private static let restNanoseconds: UInt64 = 10_000_000_000
    /// More are not waited for: whoever can write may choose any time.
    private static let mostWanted = 1_000

    /// What is still so of the same table when its mirror is read anew: what is to be made, and why it could not be. All else is looked
    /// up again, as the definition may say otherwise now.
    var readAnew: KnownPartitions {
        var known = KnownPartitions()
        known.wanted = wanted
        known.restsUntil = restsUntil
        known.refusal = refusal
        return known
    }

    func mustBeRead(at now: UInt64) -> Bool { most == nil || now >= staleAt }

    /// Whether something is to be done at this time.
    func wantsSome(at now: UInt64) -> Bool { !wanted.isEmpty && now >= restsUntil }

    /// Takes what the table has.
    mutating func take(_ days: [Int?], upTo most: Int, at now: UInt64) {
        firstDays = Set(days.compactMap { $0 })
        count = days.count
        self.most = most
        wanted = wanted.filter { isMissing($0) }
        staleAt = now &+ Self.freshNanoseconds
    }

    /// Notes that rows come for these.
    mutating func want(_ periods: Set<PartitionPeriod>) {
        if let most, count >= most { return }
        for period in periods where isMissing(period) && wanted.count < Self.mostWanted { wanted.insert(period) }
    }

    /// What is to be made: the newest first, as those are asked for most.
    var toBeMade: [PartitionPeriod] {
        Array(wanted.sorted { $0.first > $1.first }.prefix(max(0, (most ?? 0) - count)))
    }

    /// Takes what was made, or can't be.
    mutating func add(_ period: PartitionPeriod, isNew: Bool) {
        wanted.remove(period)
        refusal = nil
        if isNew {
            firstDays.insert(period.first)
            count += 1
        } else {
            covered.insert(period.first)
        }
    }

    /// No more may be made.
    mutating func wantNoMore() { wanted = [] }

    mutating func rest(at now: UInt64, because refusal: String?) {
        restsUntil = now &+ Self.restNanoseconds
        self.refusal = refusal
    }

    private func isMissing(_ period: PartitionPeriod) -> Bool {
        !firstDays.contains(period.first) && !covered.contains(period.first)
    }
}
