internal import Glibc

/// Times as text.
public enum Timestamp {
    /// `2026-01-31T23:59:59.123Z`
    public static func iso8601(unixMilliseconds: Milliseconds) -> String {
        var seconds = time_t(unixMilliseconds / 1000)
        var rest = Int(unixMilliseconds % 1000)
        if rest < 0 {
            rest += 1000
            seconds -= 1
        }
        var parts = tm()
        gmtime_r(&seconds, &parts)
        return
            "\(padded(Int(parts.tm_year) + 1900, 4))-\(padded(Int(parts.tm_mon) + 1, 2))-\(padded(Int(parts.tm_mday), 2))"
            + "T\(padded(Int(parts.tm_hour), 2)):\(padded(Int(parts.tm_min), 2)):\(padded(Int(parts.tm_sec), 2)).\(padded(rest, 3))Z"
    }

    private static func padded(_ value: Int, _ width: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}
