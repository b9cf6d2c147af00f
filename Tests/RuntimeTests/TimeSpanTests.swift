import Runtime
import Testing

/// Checks the durations that users write and read.
@Suite struct TimeSpanTests {
    @Test(
        arguments: [
            ("250ms", 250), ("5s", 5_000), ("10m", 600_000), ("24h", 86_400_000), ("30d", 2_592_000_000),
            ("2w", 1_209_600_000), ("0s", 0), ("007s", 7_000),
        ] as [(String, Milliseconds)]) func spans(_ text: String, _ milliseconds: Milliseconds)
    {
        #expect(TimeSpan.milliseconds(text) == milliseconds)
    }

    @Test(arguments: [
        "", "0", "15", "s", "-1s", "+1s", "1.5h", "1 h", "h1", "5S", "5min", "5 s", "1h30m", "99999999999999999999s",
        "9223372036854775807s", "٣s", "30 entries",
    ]) func textsThatAreNone(_ text: String) { #expect(TimeSpan.milliseconds(text) == nil) }

    @Test(arguments: [("90s", 90), ("2000ms", 2), ("1d", 86_400), ("1500ms", nil), ("90", nil)] as [(String, Int64?)])
    func wholeSeconds(_ text: String, _ seconds: Int64?) { #expect(TimeSpan.seconds(text) == seconds) }

    @Test(
        arguments: [
            (0, "0s"), (1, "1ms"), (1_500, "1500ms"), (15_000, "15s"), (90_000, "90s"), (600_000, "10m"),
            (5_400_000, "90m"), (86_400_000, "1d"), (7 * 86_400_000, "7d"),
        ] as [(Milliseconds, String)]) func texts(_ milliseconds: Milliseconds, _ text: String)
    {
        #expect(TimeSpan.text(milliseconds) == text)
        #expect(TimeSpan.milliseconds(text) == milliseconds)
    }
}
