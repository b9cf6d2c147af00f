import Runtime

/// How long a token lives, as it is said on the command line.
enum TokenLife {
    private static let longest: Int64 = 100 * 365 * 86_400

    static func seconds(_ text: String) throws -> Int64 {
        guard let seconds = TimeSpan.seconds(text), (1...longest).contains(seconds) else {
            throw UsageError("--expires-in must be a duration such as 90s, 15m, 24h or 7d.")
        }
        return seconds
    }
}
