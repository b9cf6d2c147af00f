/// A stretch of days whose rows are in one partition. Days are counted from 1970-01-01.
struct PartitionPeriod: Hashable, Sendable {
    let period: MirrorDefinition.Partitioning.Period
    let first: Int

    /// The period that a day is in.
    init(_ period: MirrorDefinition.Partitioning.Period, of day: Int) {
        self.period = period
        switch period {
        case .day: first = day
        // 1970-01-01 was a Thursday; weeks begin on Mondays, as those of ISO 8601 do.
        case .week: first = day - Self.modulo(day + 3, 7)
        case .month: first = day - (CalendarDay(number: day).day - 1)
        case .year: first = CalendarDay(year: CalendarDay(number: day).year, month: 1, day: 1)?.number ?? day
        }
    }

    /// The period that a row is in by its value; nil for none, and outside of the years 1 to 9999.
    init?(_ period: MirrorDefinition.Partitioning.Period, of cell: Cell) {
        let day: Int
        switch cell {
        case .day(let value): day = value.number
        case .timestamp(let microseconds):
            guard CalendarDay.microseconds.contains(microseconds) else { return nil }
            day = Int((microseconds - Int64(Self.modulo(Int(microseconds), Self.dayLength))) / Int64(Self.dayLength))
        default: return nil
        }
        self.init(period, of: day)
    }

    /// The day with which the next one begins.
    var next: Int {
        switch period {
        case .day: first + 1
        case .week: first + 7
        // No month has more than 31 days, and no year more than 366.
        case .month: PartitionPeriod(.month, of: first + 31).first
        case .year: PartitionPeriod(.year, of: first + 366).first
        }
    }

    /// What its table's name ends with: `2026`, `2026_01`, `2026_w05`, `2026_01_31`.
    var suffix: String {
        let day = CalendarDay(number: first)
        let year = CalendarDay.padded(day.year, 4)
        let month = CalendarDay.padded(day.month, 2)
        switch period {
        case .year: return year
        case .month: return "\(year)_\(month)"
        case .day: return "\(year)_\(month)_\(CalendarDay.padded(day.day, 2))"
        case .week:
            // A week belongs to the year that its Thursday is in.
            let thursday = first + 3
            let start = PartitionPeriod(.year, of: thursday).first
            let week = CalendarDay.padded((thursday - start) / 7 + 1, 2)
            return "\(CalendarDay.padded(CalendarDay(number: thursday).year, 4))_w\(week)"
        }
    }

    private static let dayLength = 86_400_000_000

    private static func modulo(_ value: Int, _ divisor: Int) -> Int {
        let rest = value % divisor
        return rest < 0 ? rest + divisor : rest
    }
}

extension MirrorDefinition.Partitioning {
    /// The period of a row that is to have a partition of its own; nil for one that the default partition takes.
    func period(of cell: Cell) -> PartitionPeriod? {
        guard let found = PartitionPeriod(period, of: cell) else { return nil }
        // PostgreSQL writes the end of the last one with a year of five digits, which is no day of ours.
        guard found.next <= CalendarDay.lastNumber else { return nil }
        if let from, found.first < from.number { return nil }
        if let to, found.first >= to.number { return nil }
        return found
    }
}
