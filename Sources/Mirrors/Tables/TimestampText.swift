/// Times as COPY's text format has them.
enum TimestampText {
    /// `2026-01-31 23:59:59.123456+00`; years 1 to 9999.
    static func utf8(unixMicroseconds micros: Int64) -> [UInt8] {
        let dayMicros: Int64 = 86_400_000_000
        var days = micros / dayMicros
        var rest = micros % dayMicros
        if rest < 0 {
            rest += dayMicros
            days -= 1
        }
        let day = CalendarDay(milliseconds: days * 86_400_000)
        var text: [UInt8] = []
        text.reserveCapacity(32)
        digits(day.year, 4, &text)
        text.append(UInt8(ascii: "-"))
        digits(day.month, 2, &text)
        text.append(UInt8(ascii: "-"))
        digits(day.day, 2, &text)
        text.append(UInt8(ascii: " "))
        let seconds = Int(rest / 1_000_000)
        digits(seconds / 3_600, 2, &text)
        text.append(UInt8(ascii: ":"))
        digits(seconds / 60 % 60, 2, &text)
        text.append(UInt8(ascii: ":"))
        digits(seconds % 60, 2, &text)
        text.append(UInt8(ascii: "."))
        digits(Int(rest % 1_000_000), 6, &text)
        text.append(contentsOf: "+00".utf8)
        return text
    }

    private static func digits(_ value: Int, _ width: Int, _ text: inout [UInt8]) {
        var divisor = 1
        for _ in 1..<width { divisor *= 10 }
        var rest = value
        while divisor > 0 {
            text.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest / divisor))
            rest %= divisor
            divisor /= 10
        }
    }
}
