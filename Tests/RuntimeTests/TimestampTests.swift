import Glibc
import Runtime
import Testing

@Suite struct TimestampTests {
    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (1_769_903_999_123, "2026-01-31T23:59:59.123Z"),
            (-1, "1969-12-31T23:59:59.999Z"), (-1_000, "1969-12-31T23:59:59.000Z"), (999, "1970-01-01T00:00:00.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"), (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"), (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
            (1_709_164_800_007, "2024-02-29T00:00:00.007Z"), (86_399_999, "1970-01-01T23:59:59.999Z"),
        ] as [(Int64, String)])
    func text(milliseconds: Int64, expected: String) {
        #expect(Timestamp.iso8601(unixMilliseconds: milliseconds) == expected)
    }

    /// Later times have larger texts, so that they can be sorted as text.
    @Test func textsAreInOrder() {
        var last = ""
        for day in stride(from: Int64(-20_000), through: 40_000, by: 7) {
            let text = Timestamp.iso8601(unixMilliseconds: day * 86_400_000 + day)
            #expect(text > last)
            #expect(text.utf8.count == 24)
            last = text
        }
    }
}

@Suite struct ClockTests {
    @Test func monotonicNeverStepsBack() {
        var last = Clock.monotonicNanoseconds
        for _ in 0..<10_000 {
            let now = Clock.monotonicNanoseconds
            #expect(now >= last)
            last = now
        }
        #expect(UInt64(Clock.monotonicMilliseconds) >= last / 1_000_000)
    }

    @Test func unixTimeIsTheSystems() {
        let before = Int64(time(nil))
        let milliseconds = Clock.unixMilliseconds
        let after = Int64(time(nil))
        #expect((before * 1_000...after * 1_000 + 1_999).contains(milliseconds))
    }
}
