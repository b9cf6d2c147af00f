/// How long a token lives, as it is said on the command line.
enum TokenLife {
    static func seconds(_ text: String) throws -> Int64 {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let factor: Int64? =
            switch text.dropFirst(digits.count) {
            case "", "s": 1
            case "min", "m": 60
            case "h": 3_600
            case "d": 86_400
            default: nil
            }
        guard let factor, let count = Int64(digits), count > 0, count <= 100 * 365 * 86_400 / factor else {
            throw UsageError("\(text) is no length of time, such as 90s, 15min, 24h or 7d.")
        }
        return count * factor
    }
}
