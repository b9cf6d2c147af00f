import JSONText

extension DefinitionReader {
    /// How the table is divided by time: `"partition": {"by": "placed_at", "every": "month"}`.
    mutating func partitioning(
        _ value: SourceValue?, _ keys: [MirrorDefinition.KeyColumn], _ columns: [MirrorDefinition.Column],
        _ generated: [MirrorDefinition.GeneratedColumn], _ indexes: [MirrorDefinition.Index],
        _ keeps: MirrorDefinition.Keeps?
    ) -> MirrorDefinition.Partitioning? {
        guard let value,
            let members = object(value, "partition", allowed: ["by", "every", "from", "to", "at most"])
        else { return nil }
        guard let by = members["by"], let every = members["every"] else {
            note(value.place, "partition", "it needs \"by\", a column of days or times, and \"every\", a period")
            return nil
        }
        guard let column = text(by, "partition.by"), let period = period(every) else { return nil }
        if generated.contains(where: { $0.name == column }) {
            note(
                by.place, "partition.by",
                "\(column) is generated, and PostgreSQL divides by no such column: take one that it is computed from")
        } else {
            check(column: column, by.place, keys, columns, keeps)
        }
        if indexes.contains(where: \.isUnique) {
            note(
                value.place, "partition",
                "a unique index of PostgreSQL sees one partition only: leave \"unique\" or \"partition\" out")
        }
        let from = members["from"].flatMap { firstDay($0, "partition.from", of: period) }
        let to = members["to"].flatMap { firstDay($0, "partition.to", of: period) }
        if let from, let to, from.number >= to.number {
            note(
                value.place, "partition",
                "\"to\" is the day before which partitions end: it has to come behind \"from\"")
        }
        return .init(column: column, period: period, from: from, to: to, most: mostPartitions(members["at most"]))
    }

    private mutating func period(_ value: SourceValue) -> MirrorDefinition.Partitioning.Period? {
        guard let text = text(value, "partition.every") else { return nil }
        if let period = MirrorDefinition.Partitioning.Period(rawValue: text) { return period }
        let known = MirrorDefinition.Partitioning.Period.allCases.map(\.rawValue).joined(separator: ", ")
        note(value.place, "partition.every", "there is no period \"\(text)\"; periods are \(known)")
        return nil
    }

    private mutating func check(
        column name: String, _ place: SourcePlace, _ keys: [MirrorDefinition.KeyColumn],
        _ columns: [MirrorDefinition.Column], _ keeps: MirrorDefinition.Keeps?
    ) {
        guard !mistakenColumns.contains(name) else { return }
        let own = MirrorDefinition.ownTimeColumns(keeps)
        if own.contains(name) || keys.contains(where: { $0.name == name && $0.type == .date }) { return }
        let isHistory = keeps == .changes || keeps == .versions
        if !isHistory, columns.contains(where: { $0.name == name && ($0.type == .date || $0.type == .timestamp) }) {
            return
        }
        let choice =
            isHistory
            ? "\(own.joined(separator: ", ")) or a key that is a day"
            : "a column or key of the type date or timestamptz"
        note(place, "partition.by", "\"\(name)\" can't divide this table: it takes \(choice)")
    }

    /// A day with which a period begins.
    private mutating func firstDay(
        _ value: SourceValue, _ part: String, of period: MirrorDefinition.Partitioning.Period
    ) -> CalendarDay? {
        guard let text = text(value, part) else { return nil }
        guard let day = ISO8601.day(text) else {
            note(value.place, part, "\"\(text)\" is no day, such as 2026-01-31")
            return nil
        }
        let first = PartitionPeriod(period, of: day.number).first
        guard first == day.number else {
            note(
                value.place, part,
                "no \(period.rawValue) begins on \(day): the one that it is in begins on \(CalendarDay(number: first))")
            return nil
        }
        return day
    }

    private mutating func mostPartitions(_ value: SourceValue?) -> Int {
        guard let value else { return MirrorDefinition.Partitioning.defaultMost }
        let range = 1...MirrorDefinition.Partitioning.greatestMost
        if case .number(let text) = value.kind, let number = Int(text), range ~= number { return number }
        note(value.place, "partition.at most", "this should be a whole number from 1 to \(range.upperBound)")
        return MirrorDefinition.Partitioning.defaultMost
    }
}
