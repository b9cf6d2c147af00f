extension MirrorDefinition {
    /// How a table is divided by time: each period that rows fall into has a table of its own, a partition, and a last one
    /// takes what no other does.
    public struct Partitioning: Sendable, Equatable, CustomStringConvertible {
        /// How long a partition goes. All begin in UTC.
        public enum Period: String, Sendable, CaseIterable {
            case day, week, month, year
        }

        /// A column of days or times.
        public let column: String
        public let period: Period
        /// The first day that belongs to a partition of its own, in UTC; nil where there is none.
        let from: CalendarDay?
        /// The day before which they end; nil where there is none.
        let to: CalendarDay?
        /// The most partitions that are made.
        public let most: Int

        /// What `most` is, and the most that it may be: whoever reads all of a table locks each of its partitions.
        static let defaultMost = 120
        static let greatestMost = 1_000

        /// As in a sentence: `every month of placed_at from 2020-01-01, 400 at most`.
        public var description: String {
            let from = from.map { " from \($0)" } ?? ""
            let to = to.map { " to \($0)" } ?? ""
            return "every \(period.rawValue) of \(column)\(from)\(to), \(most) at most"
        }

        /// The same by another column.
        func by(_ column: String) -> Partitioning {
            Partitioning(column: column, period: period, from: from, to: to, most: most)
        }

        /// The same with another bound, which changes nothing of what is there.
        func upTo(_ most: Int) -> Partitioning {
            Partitioning(column: column, period: period, from: from, to: to, most: most)
        }
    }

    /// Columns of ours by which a table may be divided.
    static func ownTimeColumns(_ keeps: Keeps?) -> [String] {
        switch keeps {
        case nil, .latest: []
        case .changes: [changedAtColumn]
        case .versions: [validFromColumn]
        }
    }

    /// Whether the value by which the table is divided may become another one in a row that stays: then a row goes from one
    /// partition to the next one.
    var movesBetweenPartitions: Bool {
        guard let partitioning, !isHistory else { return false }
        return !keys.contains { $0.name == partitioning.column }
    }
}
