/// A day of the Gregorian calendar, years 1 to 9999.
struct CalendarDay: Equatable, Sendable, CustomStringConvertible {
    let year: Int
    let month: Int
    let day: Int

    /// The range of these years, in milliseconds since 1970.
    static let milliseconds: ClosedRange<Int64> = -62_135_596_800_000...253_402_300_799_999
    static let microseconds: ClosedRange<Int64> = -62_135_596_800_000_000...253_402_300_799_999_999

    /// Returns nil for a day that does not exist.
    init?(year: Int, month: Int, day: Int) {
        guard (1...9_999).contains(year), (1...12).contains(month), day >= 1, day <= Self.days(year, month) else {
            return nil
        }
        self.year = year
        self.month = month
        self.day = day
    }

    /// Returns the UTC day of a time within `milliseconds`.
    init(milliseconds: Int64) {
        // Days since 0000-03-01, cut into eras of 400 years (Howard Hinnant's civil_from_days).
        let days = Int((Double(milliseconds) / 86_400_000).rounded(.down)) + 719_468
        let era = days / 146_097
        let ofEra = days - era * 146_097
        let yearOfEra = (ofEra - ofEra / 1_460 + ofEra / 36_524 - ofEra / 146_096) / 365
        let ofYear = ofEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shifted = (5 * ofYear + 2) / 153
        day = ofYear - (153 * shifted + 2) / 5 + 1
        month = shifted < 10 ? shifted + 3 : shifted - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    /// Days since 1970-01-01.
    var number: Int {
        let shiftedYear = month <= 2 ? year - 1 : year
        let era = shiftedYear / 400
        let ofEra = shiftedYear - era * 400
        let ofYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + ofEra * 365 + ofEra / 4 - ofEra / 100 + ofYear - 719_468
    }

    private static func days(_ year: Int, _ month: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    var description: String { "\(Self.padded(year, 4))-\(Self.padded(month, 2))-\(Self.padded(day, 2))" }

    static func padded(_ value: Int, _ width: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}

/// Parses times such as `2026-01-31`, `2026-01-31T23:59:59.123Z`, `2026-01-31 23:59+01:00`. A time without an offset is in UTC.
enum ISO8601 {
    static func day(_ text: String) -> CalendarDay? {
        var scanner = Scanner(text)
        guard let day = scanner.day(), scanner.isAtEnd else { return nil }
        return day
    }

    /// Returns microseconds since 1970. Further digits are cut off.
    static func microseconds(_ text: String) -> Int64? {
        var scanner = Scanner(text)
        guard let day = scanner.day() else { return nil }
        var micros = Int64(day.number) * 86_400_000_000
        if !scanner.isAtEnd {
            guard scanner.takes("T") || scanner.takes("t") || scanner.takes(" "), let time = scanner.time() else {
                return nil
            }
            micros += time
            if !scanner.isAtEnd {
                guard let offset = scanner.offset() else { return nil }
                micros -= offset
            }
        }
        guard scanner.isAtEnd, CalendarDay.microseconds.contains(micros) else { return nil }
        return micros
    }

    private struct Scanner {
        private let bytes: [UInt8]
        private var index = 0

        init(_ text: String) { bytes = Array(text.utf8) }

        var isAtEnd: Bool { index == bytes.count }

        mutating func takes(_ character: Unicode.Scalar) -> Bool {
            guard index < bytes.count, bytes[index] == UInt8(truncatingIfNeeded: character.value) else { return false }
            index += 1
            return true
        }

        mutating func digits(_ count: Int) -> Int? {
            guard index + count <= bytes.count else { return nil }
            var value = 0
            for byte in bytes[index..<index + count] {
                guard byte &- 0x30 <= 9 else { return nil }
                value = value * 10 + Int(byte - 0x30)
            }
            index += count
            return value
        }

        mutating func day() -> CalendarDay? {
            guard let year = digits(4), takes("-"), let month = digits(2), takes("-"), let day = digits(2) else {
                return nil
            }
            return CalendarDay(year: year, month: month, day: day)
        }

        mutating func time() -> Int64? {
            guard let hour = digits(2), hour < 24, takes(":"), let minute = digits(2), minute < 60 else { return nil }
            var micros = Int64(hour * 60 + minute) * 60_000_000
            if takes(":") {
                guard let second = digits(2), second < 60 else { return nil }
                micros += Int64(second) * 1_000_000
                if takes(".") || takes(",") {
                    guard let fraction = fraction() else { return nil }
                    micros += fraction
                }
            }
            return micros
        }

        private mutating func fraction() -> Int64? {
            var value: Int64 = 0
            var scale: Int64 = 100_000
            let start = index
            while index < bytes.count, bytes[index] &- 0x30 <= 9 {
                value += Int64(bytes[index] - 0x30) * scale
                scale /= 10
                index += 1
            }
            return index > start ? value : nil
        }

        mutating func offset() -> Int64? {
            if takes("Z") || takes("z") { return 0 }
            let sign: Int64
            if takes("+") { sign = 1 } else if takes("-") { sign = -1 } else { return nil }
            guard let hours = digits(2), hours < 24 else { return nil }
            var minutes = 0
            if takes(":") {
                guard let found = digits(2) else { return nil }
                minutes = found
            } else if let found = digits(2) {
                minutes = found
            }
            guard minutes < 60 else { return nil }
            return sign * Int64(hours * 60 + minutes) * 60_000_000
        }
    }
}
