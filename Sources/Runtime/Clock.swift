internal import Glibc

/// The system's clocks.
public enum Clock {
    /// Milliseconds since 1970; may jump when the clock is set.
    public static var unixMilliseconds: Milliseconds {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Nanoseconds since an arbitrary time; never decreases. For durations and deadlines.
    public static var monotonicNanoseconds: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    public static var monotonicMilliseconds: Milliseconds { Int64(monotonicNanoseconds / 1_000_000) }

    /// `monotonicMilliseconds` with the precision of the kernel's tick (a few milliseconds) and cheaper to read: for
    /// loops that read the time with every request.
    public static var coarseMilliseconds: Milliseconds {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Seconds since 1970, with the precision of the kernel's tick.
    public static var coarseUnixSeconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME_COARSE, &time)
        return Int64(time.tv_sec)
    }
}

/// A duration, or a time of `Clock`, in milliseconds. All code uses this type, so durations and times add up without
/// conversions. The name of a variable shows whether a time is monotonic or since 1970.
public typealias Milliseconds = Int64

/// Reads and writes durations: `250ms`, `5s`, `10m`, `24h`, `30d`, `2w`. A number without a unit is not a duration.
public enum TimeSpan {
    /// In the order in which `text` tries them.
    private static let units: [(name: String, milliseconds: Milliseconds)] = [
        ("w", 7 * 86_400_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1),
    ]

    /// Reads a whole number and a unit.
    ///
    /// - Returns: nil for any other text, and for a duration beyond 2^63 milliseconds.
    public static func milliseconds(_ text: some StringProtocol) -> Milliseconds? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text.dropFirst(digits.count)
        guard let number = Milliseconds(digits), let factor = units.first(where: { $0.name == unit })?.milliseconds
        else { return nil }
        let (span, isTooLong) = number.multipliedReportingOverflow(by: factor)
        return isTooLong ? nil : span
    }

    /// Reads a duration of whole seconds.
    ///
    /// - Returns: nil for any other text, and for a duration such as `1500ms`.
    public static func seconds(_ text: some StringProtocol) -> Int64? {
        guard let span = milliseconds(text), span % 1_000 == 0 else { return nil }
        return span / 1_000
    }

    /// Writes a duration as `milliseconds(_:)` reads it, without rounding: `30d`, `90m`, `1500ms`. Weeks are written as
    /// days.
    public static func text(_ milliseconds: Milliseconds) -> String {
        guard milliseconds != 0 else { return "0s" }
        for unit in units where unit.name != "w" && milliseconds % unit.milliseconds == 0 {
            return "\(milliseconds / unit.milliseconds)\(unit.name)"
        }
        return "\(milliseconds)ms"
    }
}

/// Times as text.
public enum Timestamp {
    /// Formats a time as `2026-01-31T23:59:59.123Z`.
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
            // Only a clock that is far off gives such a year.
            return
                "\(year)-\(parts.tm_mon + 1)-\(parts.tm_mday)T\(parts.tm_hour):\(parts.tm_min):\(parts.tm_sec).\(rest)Z"
        }
        return String(unsafeUninitializedCapacity: 24) { buffer in
            var end = 0
            func put(_ value: Int, _ width: Int, _ mark: Unicode.Scalar) {
                var value = value
                for index in stride(from: end + width - 1, through: end, by: -1) {
                    buffer[index] = UInt8(ascii: "0") + UInt8(value % 10)
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
