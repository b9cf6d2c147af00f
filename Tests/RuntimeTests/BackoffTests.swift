import Runtime
import Testing

/// Checks pauses between attempts: each is twice the one before, up to a limit.
@Suite struct BackoffTests {
    private func pauses(_ backoff: inout Backoff, _ count: Int) -> [Int64] {
        (0..<count).map { _ in backoff.nextMilliseconds() }
    }

    @Test func pausesDouble() {
        var backoff = Backoff(firstMilliseconds: 50, longestMilliseconds: 1_000)
        #expect(pauses(&backoff, 7) == [50, 100, 200, 400, 800, 1_000, 1_000])
    }

    @Test func successStartsAgain() {
        var backoff = Backoff(firstMilliseconds: 200, longestMilliseconds: 30_000)
        #expect(pauses(&backoff, 3) == [200, 400, 800])
        backoff.reset()
        #expect(pauses(&backoff, 2) == [200, 400])
    }

    @Test func noPauseIsLongerThanTheLimit() {
        var short = Backoff(firstMilliseconds: 500, longestMilliseconds: 100)
        #expect(pauses(&short, 2) == [100, 100])
        var exact = Backoff(firstMilliseconds: 100, longestMilliseconds: 100)
        #expect(pauses(&exact, 2) == [100, 100])
        var endless = Backoff(firstMilliseconds: 1, longestMilliseconds: .max)
        let last = pauses(&endless, 70).last
        #expect(last == .max, "no overflow")
    }
}
