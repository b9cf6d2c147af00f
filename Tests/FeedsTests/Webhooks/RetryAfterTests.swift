import Glibc
import TestSupport
import Testing

@testable import Feeds

/// Tests of how long an endpoint asks the gateway to wait.
@Suite struct RetryAfterTests {
    /// Sun, 06 Nov 1994 08:49:37 GMT
    private static let moment: Int64 = 784_111_777

    @Test(
        arguments: [
            ("1", 1_000), ("120", 120_000), ("3600", 3_600_000), ("3601", 3_600_000), ("0", nil),
            ("99999999999999999999999999", 3_600_000), ("9223372036854775807", 3_600_000), ("", nil), ("-1", nil),
            ("+1", nil), ("1.5", nil), ("soon", nil), (" 5", nil),
            ("Sun, 06 Nov 1994 08:49:47 GMT", 10_000), ("Sunday, 06-Nov-94 08:49:47 GMT", 10_000),
            ("Sun Nov  6 08:49:47 1994", 10_000), ("Sun, 06 Nov 1994 08:49:37 GMT", nil),
            ("Sun, 06 Nov 1994 08:49:36 GMT", nil), ("Mon, 07 Nov 1994 08:49:37 GMT", 3_600_000),
            ("Sun, 06 Nov 9999 08:49:37 GMT", 3_600_000), ("Sun, 06 Nov 1994 08:49:47 CET", nil),
            ("Sun, 06 Foo 1994 08:49:47 GMT", nil), ("Sun, 32 Nov 1994 08:49:47 GMT", nil),
            ("Sun, 06 Nov 1994 24:49:47 GMT", nil), ("Sun, 06 Nov 1994 08:49 GMT", nil),
            ("Sun, 06 Nov 1994 08:-9:47 GMT", nil), (String(repeating: "Sun ", count: 100), nil),
        ] as [(String, Int64?)])
    func texts(_ text: String, _ milliseconds: Int64?) {
        let now = Self.moment * 1_000
        #expect(RetryAfter.milliseconds(text, nowUnixMilliseconds: now) == milliseconds)
    }

    /// Checks that a time is parsed correctly in each format.
    @Test func datesAreReadAsTheyAreWritten() {
        var generator = SeededGenerator(seed: 11)
        for _ in 0..<2_000 {
            // Up to 2069, because one format has two digits for the year.
            let seconds = Int64(generator.below(3_155_760_000 - 86_400))
            for form in ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"] {
                #expect(RetryAfter.unixSeconds(Self.text(seconds, form)) == seconds)
            }
        }
    }

    private static func text(_ seconds: Int64, _ form: String) -> String {
        var time = time_t(seconds)
        var parts = tm()
        gmtime_r(&time, &parts)
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 100) { text in
            guard let base = text.baseAddress, strftime(base, 100, form, &parts) > 0 else { return "" }
            return String(cString: base)
        }
    }
}
