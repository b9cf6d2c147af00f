/// Numbers of bytes as people write and read them: `8GiB`, `512MiB`, `64k`, `1000000`; `1.5 GB`.
enum ByteCount {
    private static let units: [(names: [String], bytes: Int)] = [
        (["", "b"], 1), (["k", "kib"], 1 << 10), (["m", "mib"], 1 << 20), (["g", "gib"], 1 << 30),
        (["t", "tib"], 1 << 40),
        (["kb"], 1_000), (["mb"], 1_000_000), (["gb"], 1_000_000_000), (["tb"], 1_000_000_000_000),
    ]

    /// Nil where the text is no number of bytes, or too large a one.
    static func parse(_ text: String) -> Int? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text.dropFirst(digits.count).drop { $0 == " " }.lowercased()
        guard let number = Int(digits), let factor = units.first(where: { $0.names.contains(unit) })?.bytes else {
            return nil
        }
        let (bytes, isTooLarge) = number.multipliedReportingOverflow(by: factor)
        return isTooLarge ? nil : bytes
    }

    /// `512 bytes`, `1.5 GB`: three digits at most.
    static func text(_ bytes: Int64) -> String {
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
