internal import Runtime

/// The header `Retry-After`: seconds, or a date in one of the three forms of HTTP.
enum RetryAfter {
    /// Nobody is believed who wants to be left alone for longer.
    static let mostMilliseconds: Milliseconds = 3_600_000

    /// How long from now; nil where the text is no such header, or the time has come already.
    static func milliseconds(_ text: String, nowUnixMilliseconds: Milliseconds) -> Milliseconds? {
        let wanted: Milliseconds
        if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            // More digits than a number has are longer than anything.
            wanted = Int64(text).map { $0 > mostMilliseconds ? mostMilliseconds : $0 * 1_000 } ?? mostMilliseconds
        } else if let seconds = unixSeconds(text) {
            wanted = seconds * 1_000 - nowUnixMilliseconds
        } else {
            return nil
        }
        return wanted > 0 ? min(wanted, mostMilliseconds) : nil
    }

    /// Reads `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` and `Sun Nov  6 08:49:37 1994`.
    static func unixSeconds(_ text: String) -> Int64? {
        guard text.utf8.count <= 40 else { return nil }
        var parts = text.split { " ,-:".contains($0) }
        if parts.count == 8, parts[7] == "GMT" {
            parts.removeLast()
        } else if parts.count == 7 {
            // The old form of C: the day behind the month, the year at the end.
            parts = [parts[0], parts[2], parts[1], parts[6], parts[3], parts[4], parts[5]]
        } else {
            return nil
        }
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        guard let month = months.firstIndex(of: String(parts[2])), let day = number(parts[1], 1...31),
            var year = number(parts[3], 0...9_999), let hour = number(parts[4], 0...23),
            let minute = number(parts[5], 0...59), let second = number(parts[6], 0...60)
        else { return nil }
        if parts[3].count == 2 { year += year < 70 ? 2_000 : 1_900 }
        guard year >= 1_970 else { return nil }
        return days(year, month + 1, day) * 86_400 + hour * 3_600 + minute * 60 + second
    }

    private static func number(_ text: Substring, _ range: ClosedRange<Int64>) -> Int64? {
        guard text.utf8.count <= 4, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int64(text),
            range.contains(number)
        else { return nil }
        return number
    }

    /// Days from 1970-01-01 to a day of the Gregorian calendar.
    private static func days(_ year: Int64, _ month: Int, _ day: Int64) -> Int64 {
        // Years begin in March, so that the leap day is the last of one.
        let shifted = month > 2 ? year : year - 1
        let monthFromMarch = Int64((month + 9) % 12)
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
        return shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
    }
}
