/// How long to pause between tries of something that fails: each pause is twice the one before, up to a limit.
public struct Backoff: Sendable, Equatable {
    private let firstMilliseconds: Milliseconds
    private let longestMilliseconds: Milliseconds
    private var upcomingMilliseconds: Milliseconds

    /// - Parameters:
    ///   - firstMilliseconds: the pause after the first failure.
    ///   - longestMilliseconds: no pause is longer.
    public init(firstMilliseconds: Milliseconds, longestMilliseconds: Milliseconds) {
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
