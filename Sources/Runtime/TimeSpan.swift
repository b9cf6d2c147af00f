/// Reads and writes durations: `250ms`, `5s`, `10m`, `24h`, `30d`, `2w`. A number without a unit is no duration.
public enum TimeSpan {
    /// In the order in which `text` tries them.
    private static let units: [(name: String, milliseconds: Milliseconds)] = [
        ("w", 7 * 86_400_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1),
    ]

    /// Reads a whole number and a unit.
    ///
    /// - Returns: nil for another text, and for a duration beyond 2^63 milliseconds.
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
    /// - Returns: nil for another text, and for a duration such as `1500ms`.
    public static func seconds(_ text: some StringProtocol) -> Int64? {
        guard let span = milliseconds(text), span % 1_000 == 0 else { return nil }
        return span / 1_000
    }

    /// Writes a duration as `milliseconds(_:)` reads it, without rounding: `30d`, `90m`, `1500ms`. Weeks are written as days.
    public static func text(_ milliseconds: Milliseconds) -> String {
        guard milliseconds != 0 else { return "0s" }
        for unit in units where unit.name != "w" && milliseconds % unit.milliseconds == 0 {
            return "\(milliseconds / unit.milliseconds)\(unit.name)"
        }
        return "\(milliseconds)ms"
    }
}
