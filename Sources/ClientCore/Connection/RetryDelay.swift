/// How long to pause between tries to connect: longer with each failure, up to a limit, and spread by chance so that the
/// clients of a server that comes back don't come all at once.
struct RetryDelay: Sendable {
    private let first: Int64
    private let longest: Int64
    private var upcoming: Double
    private var random: UInt64

    init(_ settings: ConnectionSettings, seed: UInt64) {
        first = settings.firstRetry
        longest = settings.longestRetry
        upcoming = Double(first)
        random = seed
    }

    /// Something has succeeded, or the app asks for a try: the next failure is a first one again.
    mutating func reset() { upcoming = Double(first) }

    /// The next pause is the longest one: what failed will fail again.
    mutating func giveUpForNow() { upcoming = Double(longest) }

    /// The pause after one more failure, in milliseconds: between half of what is due and all of it.
    mutating func next() -> Int64 {
        let pause = min(upcoming, Double(longest))
        upcoming = min(pause * 1.5, Double(longest))
        return Int64(pause / 2 + pause / 2 * fraction())
    }

    /// From 0 to 1, by the generator SplitMix64.
    private mutating func fraction() -> Double {
        random &+= 0x9E37_79B9_7F4A_7C15
        var mixed = random
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return Double((mixed ^ (mixed >> 31)) >> 11) / Double(1 << 53)
    }
}
