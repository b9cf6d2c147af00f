/// Reads and writes sizes: `512KiB`, `64MiB`, `50GB`. A number without a unit is not a size.
public enum ByteCount {
    /// In the order in which `exactText` tries them.
    private static let units: [(name: String, bytes: Int64)] = [
        ("TiB", 1 << 40), ("TB", 1_000_000_000_000), ("GiB", 1 << 30), ("GB", 1_000_000_000), ("MiB", 1 << 20),
        ("MB", 1_000_000), ("KiB", 1 << 10), ("kB", 1_000), ("B", 1),
    ]

    /// Reads a whole number and a unit (B, KiB, MiB, GiB, TiB, kB, MB, GB or TB, in upper or lower case).
    ///
    /// - Returns: bytes; nil for any other text, and for a size beyond 2^63 bytes.
    public static func parse(_ text: String) -> Int? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text.dropFirst(digits.count).lowercased()
        guard let number = Int(digits), let factor = units.first(where: { $0.name.lowercased() == unit })?.bytes else {
            return nil
        }
        let (bytes, isTooLarge) = number.multipliedReportingOverflow(by: Int(factor))
        return isTooLarge ? nil : bytes
    }

    /// Writes a size as `parse` reads it, without rounding: `64MiB`, `50GB`, `1001B`.
    public static func exactText(_ bytes: Int64) -> String {
        for unit in units where bytes != 0 && bytes % unit.bytes == 0 { return "\(bytes / unit.bytes)\(unit.name)" }
        return "\(bytes)B"
    }

    /// Writes a size for display, rounded to two or three digits: `512 bytes`, `1.5 GB`.
    public static func text(_ bytes: Int64) -> String {
        guard bytes >= 1_000 else { return "\(bytes) bytes" }
        var tenths = bytes / 100
        for unit in ["kB", "MB", "GB", "TB", "PB"] {
            if tenths < 10_000 || unit == "PB" {
                return tenths < 100 ? "\(tenths / 10).\(tenths % 10) \(unit)" : "\(tenths / 10) \(unit)"
            }
            tenths /= 1_000
        }
        return "\(bytes) bytes"
    }
}
