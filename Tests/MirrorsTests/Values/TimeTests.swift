import Glibc
import TestSupport
import Testing

@testable import Mirrors

/// Tests of days and times against the C library.
@Suite struct TimeTests {
    /// Seconds since 1970 of a day at midnight UTC.
    private func seconds(_ year: Int, _ month: Int, _ day: Int) -> Int64 {
        var parts = tm()
        parts.tm_year = Int32(year - 1900)
        parts.tm_mon = Int32(month - 1)
        parts.tm_mday = Int32(day)
        return Int64(timegm(&parts))
    }

    @Test func everyDayHasItsNumberAndBack() throws {
        // A prime step, so that all days of the year and of the week occur.
        for number in stride(from: -719_162, through: 2_932_896, by: 97) {
            var time = time_t(number * 86_400)
            var parts = tm()
            gmtime_r(&time, &parts)
            let day = try #require(
                CalendarDay(year: Int(parts.tm_year) + 1900, month: Int(parts.tm_mon) + 1, day: Int(parts.tm_mday)))
            #expect(day.number == number)
            for milliseconds in [0, 1, 43_200_000, 86_399_999] {
                #expect(CalendarDay(milliseconds: Int64(number) * 86_400_000 + Int64(milliseconds)) == day)
            }
        }
    }

    @Test(arguments: [1, 4, 100, 400, 1582, 1700, 1900, 1999, 2000, 2023, 2024, 2100, 2400, 9996, 9999])
    func monthsHaveTheirDays(year: Int) {
        for month in 1...12 {
            var last = 0
            for day in 1...31 where seconds(year, month, day) == midnight(of: year, month, day) { last = day }
            #expect(CalendarDay(year: year, month: month, day: last) != nil)
            #expect(CalendarDay(year: year, month: month, day: last + 1) == nil)
        }
    }

    /// Seconds since 1970 of a day at midnight UTC, or nil if the C library normalizes it to another day.
    private func midnight(of year: Int, _ month: Int, _ day: Int) -> Int64? {
        var time = time_t(seconds(year, month, day))
        var parts = tm()
        gmtime_r(&time, &parts)
        return parts.tm_mday == day && parts.tm_mon == month - 1 ? Int64(time) : nil
    }

    @Test(arguments: [(0, 1, 1), (10_000, 1, 1), (2024, 0, 1), (2024, 13, 1), (2024, 1, 0), (2024, 1, 32), (-1, 1, 1)])
    func noCalendarHasThese(year: Int, month: Int, day: Int) {
        #expect(CalendarDay(year: year, month: month, day: day) == nil)
    }

    @Test(arguments: [
        (1, 1, 1, "0001-01-01"), (987, 6, 5, "0987-06-05"), (2026, 11, 22, "2026-11-22"), (9999, 12, 31, "9999-12-31"),
    ])
    func daysAsText(year: Int, month: Int, day: Int, text: String) throws {
        let found = try #require(CalendarDay(year: year, month: month, day: day))
        #expect(found.description == text)
        #expect(ISO8601.day(text) == found)
    }

    /// Checks that random times are parsed correctly in all forms.
    @Test(arguments: 1...4) func formsOfATime(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<800 {
            let day = CalendarDay(milliseconds: Int64(random.below(3_000_000)) * 86_400_000 - 60_000_000_000_000)
            let (hour, minute, second) = (random.below(24), random.below(60), random.below(60))
            let micros = random.below(1_000_000)
            let two = { (value: Int) in CalendarDay.padded(value, 2) }
            var expected = (seconds(day.year, day.month, day.day) + Int64(hour * 3_600 + minute * 60)) * 1_000_000
            var text = "\(day)\(random.pick(["T", "t", " "]))\(two(hour)):\(two(minute))"
            if random.oneIn(2) {
                text += ":\(two(second))"
                expected += Int64(second) * 1_000_000
                if random.oneIn(2) {
                    // Digits beyond microseconds are cut off.
                    text += random.pick([".", ","]) + CalendarDay.padded(micros, 6) + random.pick(["", "9", "999999"])
                    expected += Int64(micros)
                }
            }
            let (hours, minutes) = (random.below(15), random.below(60))
            switch random.below(6) {
            case 0: text += random.pick(["Z", "z"])
            case 1:
                text += "+\(two(hours)):\(two(minutes))"
                expected -= Int64(hours * 60 + minutes) * 60_000_000
            case 2:
                text += "-\(two(hours))\(two(minutes))"
                expected += Int64(hours * 60 + minutes) * 60_000_000
            case 3:
                text += "-\(two(hours))"
                expected += Int64(hours) * 3_600_000_000
            default: break
            }
            #expect(ISO8601.microseconds(text) == expected, "\(text)")
            // An additional character makes the text invalid, and a time is not a day.
            #expect(ISO8601.microseconds(text + "x") == nil, "\(text)x")
            #expect(ISO8601.microseconds("x" + text) == nil)
            #expect(ISO8601.day(text) == nil)
        }
    }

    /// Checks that parsing arbitrary text gives a time or nil and never traps.
    @Test func anyTextIsReadSafely() {
        var random = SeededGenerator(seed: 11)
        let pieces = ["2026", "-", "01", "T", ":", "23", "59", ".", "5", "+", "Z", "é", " ", "9999", "0000", "-12", ""]
        for _ in 0..<20_000 {
            let text = (0..<random.below(12)).map { _ in random.pick(pieces) }.joined()
            guard let micros = ISO8601.microseconds(text) else { continue }
            #expect(CalendarDay.microseconds.contains(micros), "\(text)")
            #expect(text.utf8.count >= 10, "\(text)")
        }
    }
}
