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
        let year = Int(parts.tm_year) + 1900
        guard (0...9_999).contains(year) else {
            // Only clocks that are far off say this.
            return
                "\(year)-\(parts.tm_mon + 1)-\(parts.tm_mday)T\(parts.tm_hour):\(parts.tm_min):\(parts.tm_sec).\(rest)Z"
        }
        return String(unsafeUninitializedCapacity: 24) { buffer in
            var end = 0
            func put(_ value: Int, _ width: Int, _ mark: Unicode.Scalar) {
                var value = value
                for place in stride(from: end + width - 1, through: end, by: -1) {
                    buffer[place] = UInt8(ascii: "0") + UInt8(value % 10)
                    value /= 10
                }
                buffer[end + width] = UInt8(ascii: mark)
                end += width + 1
            }
            put(year, 4, "-")
            put(Int(parts.tm_mon) + 1, 2, "-")
            put(Int(parts.tm_mday), 2, "T")
            put(Int(parts.tm_hour), 2, ":")
            put(Int(parts.tm_min), 2, ":")
            put(Int(parts.tm_sec), 2, ".")
            put(rest, 3, "Z")
            return end
        }
    }
}
