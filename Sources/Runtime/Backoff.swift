/// The pauses between attempts at an operation that fails: each is twice the previous one, up to a limit.
public struct Backoff: Sendable, Equatable {
    private let firstMilliseconds: Milliseconds
    private let longestMilliseconds: Milliseconds
    private var upcomingMilliseconds: Milliseconds

    /// - Parameters:
    ///   - firstMilliseconds: the pause after the first failure.
    ///   - longestMilliseconds: maximum pause.
    public init(firstMilliseconds: Milliseconds, longestMilliseconds: Milliseconds) {
        self.firstMilliseconds = min(firstMilliseconds, longestMilliseconds)
        self.longestMilliseconds = longestMilliseconds
        upcomingMilliseconds = self.firstMilliseconds
    }

    /// Returns the pause after one more failure.
    public mutating func nextMilliseconds() -> Int64 {
        let pause = upcomingMilliseconds
        upcomingMilliseconds = pause > longestMilliseconds / 2 ? longestMilliseconds : pause * 2
        return pause
    }

    /// Records a success: the next failure counts as the first.
    public mutating func reset() { upcomingMilliseconds = firstMilliseconds }
}
