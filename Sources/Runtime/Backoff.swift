/// How long to pause between tries of something that fails: each pause is twice the one before, up to a limit.
public struct Backoff: Sendable, Equatable {
    private let firstMilliseconds: Int64
    private let longestMilliseconds: Int64
    private var upcomingMilliseconds: Int64

    /// - Parameters:
    ///   - firstMilliseconds: the pause after the first failure.
    ///   - longestMilliseconds: no pause is longer.
    public init(firstMilliseconds: Int64, longestMilliseconds: Int64) {
        self.firstMilliseconds = min(firstMilliseconds, longestMilliseconds)
        self.longestMilliseconds = longestMilliseconds
        upcomingMilliseconds = self.firstMilliseconds
    }

    /// The pause after one more failure.
    public mutating func nextMilliseconds() -> Int64 {
        let pause = upcomingMilliseconds
        upcomingMilliseconds = pause > longestMilliseconds / 2 ? longestMilliseconds : pause * 2
        return pause
    }

    /// Something has succeeded: the next failure is a first one again.
    public mutating func reset() { upcomingMilliseconds = firstMilliseconds }
}
