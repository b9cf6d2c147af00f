import Testing

@testable import Mirrors

/// Which days are one period, and what its partition is called.
@Suite struct PartitionPeriodTests {
    private func number(_ text: String) throws -> Int { try #require(ISO8601.day(text)).number }

    @Test(
        arguments: [
            ("2026-11-27", "day", "2026-11-27", "2026-11-28", "2026_11_27"),
            ("2026-11-27", "week", "2026-11-23", "2026-11-30", "2026_w48"),
            ("2026-11-30", "week", "2026-11-30", "2026-12-07", "2026_w49"),
            ("2027-01-03", "week", "2026-12-28", "2027-01-04", "2026_w53"),
            ("2024-12-30", "week", "2024-12-30", "2025-01-06", "2025_w01"),
            ("1969-12-31", "week", "1969-12-29", "1970-01-05", "1970_w01"),
            ("2024-02-29", "month", "2024-02-01", "2024-03-01", "2024_02"),
            ("2026-01-31", "month", "2026-01-01", "2026-02-01", "2026_01"),
            ("2026-12-31", "month", "2026-12-01", "2027-01-01", "2026_12"),
            ("1969-12-31", "month", "1969-12-01", "1970-01-01", "1969_12"),
            ("2024-12-31", "year", "2024-01-01", "2025-01-01", "2024"),
            ("0001-01-01", "year", "0001-01-01", "0002-01-01", "0001"),
        ])
    func everyDayHasAPeriod(_ day: String, _ every: String, _ first: String, _ next: String, _ suffix: String) throws {
        let kind = try #require(MirrorDefinition.Partitioning.Period(rawValue: every))
        let period = PartitionPeriod(kind, of: try number(day))
        #expect(CalendarDay(number: period.first).description == first)
        #expect(CalendarDay(number: period.next).description == next)
        #expect(period.suffix == suffix)
    }

    /// Periods follow one another without a gap: each day is in the one that begins last.
    @Test(arguments: MirrorDefinition.Partitioning.Period.allCases)
    func periodsFollowOneAnother(_ kind: MirrorDefinition.Partitioning.Period) throws {
        var period = PartitionPeriod(kind, of: try number("1895-01-01"))
        for day in try number("1895-01-01")...number("2105-01-01") {
            if day == period.next { period = PartitionPeriod(kind, of: day) }
            #expect(period.first <= day && day < period.next)
            #expect(PartitionPeriod(kind, of: day) == period)
        }
    }

    @Test func timesBelongToTheirDayInUTC() {
        let day: (Int64) -> Int? = { PartitionPeriod(.day, of: .timestamp($0))?.first }
        #expect(day(0) == 0)
        #expect(day(86_399_999_999) == 0)
        #expect(day(86_400_000_000) == 1)
        #expect(day(-1) == -1)
        #expect(day(-86_400_000_000) == -1)
        #expect(day(CalendarDay.microseconds.upperBound + 1) == nil)
        #expect(PartitionPeriod(.day, of: Cell.null) == nil)
        #expect(PartitionPeriod(.day, of: Cell.text("2026-01-01")) == nil)
    }

    @Test func whatIsOutsideOfTheBoundsHasNone() throws {
        let definition = try MirrorDefinition.read(
            Array(
                #"""
                {"name": "m", "path": "/o/{k}", "columns": {"d": "date"},
                 "partition": {"by": "d", "every": "month", "from": "2026-01-01", "to": "2026-03-01"}}
                """#.utf8), source: "test")
        let partitioning = try #require(definition.first?.partitioning)
        let period = { (text: String) throws in
            partitioning.period(of: .day(try #require(ISO8601.day(text))))?.suffix
        }
        #expect(try period("2025-12-31") == nil)
        #expect(try period("2026-01-01") == "2026_01")
        #expect(try period("2026-02-28") == "2026_02")
        #expect(try period("2026-03-01") == nil)
        let open = MirrorDefinition.Partitioning(column: "d", period: .year, from: nil, to: nil, most: 1)
        #expect(open.period(of: .day(try #require(ISO8601.day("9999-12-31")))) == nil)
        #expect(open.period(of: .day(try #require(ISO8601.day("9998-12-31"))))?.suffix == "9998")
    }
}
