import Feeds
import TestSupport
import Testing

/// Checks that an unavailable endpoint is tried rarely, one that recovers is used immediately, and no endpoint is given
/// up.
@Suite struct CircuitBreakerTests {
    private static func settings(_ change: (inout CircuitBreaker.Settings) -> Void = { _ in })
        -> CircuitBreaker.Settings
    {
        var settings = CircuitBreaker.Settings()
        settings.failures = 3
        settings.firstPauseMilliseconds = 1_000
        settings.longestPauseMilliseconds = 8_000
        settings.probeMilliseconds = 10_000
        change(&settings)
        return settings
    }

    /// Always returns the maximum, so that pauses are predictable.
    private struct Most: RandomNumberGenerator {
        mutating func next() -> UInt64 { .max }
    }

    @Test func opensAfterSomeFailuresInARow() {
        var most = Most()
        var breaker = CircuitBreaker(Self.settings(), at: 100)
        for moment in 0..<20 as Range<Int64> {
            #expect(breaker.mayDeliver(at: moment) == .deliver)
            // Never three failures in a row.
            if moment % 3 == 2 { breaker.succeeded(at: moment) } else { breaker.failed(at: moment, using: &most) }
        }
        #expect(breaker.state == .closed && breaker.sinceMilliseconds == 100)
        breaker.failed(at: 20, using: &most)
        #expect(breaker.state == .open && breaker.sinceMilliseconds == 20 && breaker.failures == 3)
        #expect(breaker.mayDeliver(at: 1_019) == .wait(until: 1_020))
    }

    @Test func oneProbeAtATime() {
        var most = Most()
        var breaker = CircuitBreaker(Self.settings { $0.failures = 1 }, at: 0)
        breaker.failed(at: 0, using: &most)
        #expect(breaker.mayDeliver(at: 1_000) == .probe)
        #expect(breaker.state == .halfOpen && breaker.sinceMilliseconds == 1_000)
        for moment in [1_000, 1_001, 10_999] as [Int64] {
            #expect(breaker.mayDeliver(at: moment) == .wait(until: 11_000))
        }
        breaker.succeeded(at: 2_000)
        #expect(breaker.state == .closed && breaker.sinceMilliseconds == 2_000)
        #expect(breaker.mayDeliver(at: 2_000) == .deliver)
    }

    /// Checks that a probe without a result is followed by another: its caller may have had nothing to send.
    @Test func aProbeThatIsNeverHeardOfIsFollowedByAnother() {
        var most = Most()
        var breaker = CircuitBreaker(Self.settings { $0.failures = 1 }, at: 0)
        breaker.failed(at: 0, using: &most)
        #expect(breaker.mayDeliver(at: 1_000) == .probe)
        #expect(breaker.mayDeliver(at: 11_000) == .probe)
        #expect(breaker.mayDeliver(at: 11_001) == .wait(until: 21_000))
    }

    @Test func pausesGrowUpToTheLongestAndBeginAgain() {
        var most = Most()
        var breaker = CircuitBreaker(Self.settings(), at: 0)
        for _ in 0..<3 { breaker.failed(at: 0, using: &most) }
        var now: Int64 = 0
        var pauses: [Int64] = []
        for _ in 0..<100 {
            guard case .wait(let end) = breaker.mayDeliver(at: now) else { break }
            pauses.append(end - now)
            now = end
            #expect(breaker.mayDeliver(at: now) == .probe)
            breaker.failed(at: now, using: &most)
        }
        #expect(pauses.prefix(5) == [1_000, 2_000, 4_000, 8_000, 8_000])
        #expect(pauses.count == 100 && pauses.dropFirst(3).allSatisfy { $0 == 8_000 })
        breaker.succeeded(at: now)
        for _ in 0..<3 { breaker.failed(at: now, using: &most) }
        #expect(breaker.mayDeliver(at: now) == .wait(until: now + 1_000))
    }

    @Test func pausesAreSpread() {
        var pauses: Set<Int64> = []
        for seed in 0..<200 as Range<UInt64> {
            var generator = SeededGenerator(seed: seed)
            var breaker = CircuitBreaker(Self.settings { $0.failures = 1 }, at: 0)
            breaker.failed(at: 0, using: &generator)
            guard case .wait(let end) = breaker.mayDeliver(at: -1) else { continue }
            pauses.insert(end)
        }
        #expect(pauses.count > 150 && pauses.allSatisfy { 0...1_000 ~= $0 })
        #expect((pauses.min() ?? 1_000) < 100 && (pauses.max() ?? 0) > 900)
    }

    @Test func requestedPausesAreGranted() {
        var most = Most()
        var breaker = CircuitBreaker(Self.settings(), at: 0)
        // The circuit opens immediately, for no less than the requested time.
        breaker.failed(at: 0, retryAfterMilliseconds: 30_000, using: &most)
        #expect(breaker.mayDeliver(at: 29_999) == .wait(until: 30_000))
        // A second delivery in flight requests a longer pause, and a third a shorter one.
        breaker.failed(at: 5_000, retryAfterMilliseconds: 40_000, using: &most)
        breaker.failed(at: 6_000, retryAfterMilliseconds: 1, using: &most)
        breaker.failed(at: 7_000, using: &most)
        #expect(breaker.mayDeliver(at: 44_999) == .wait(until: 45_000))
        #expect(breaker.mayDeliver(at: 45_000) == .probe)
    }

    /// Checks for every sequence of events that there are never two probes within a probe's time, no endless wait and
    /// no delivery while open, and that one success closes the circuit.
    @Test func everyOrderOfEvents() {
        let settings = Self.settings { $0.failures = 2 }
        func explore(_ breaker: CircuitBreaker, _ now: Int64, _ lastProbe: Int64?, _ depth: Int) {
            guard depth > 0 else { return }
            var most = Most()
            for step in [1, 900, 10_000] as [Int64] {
                let now = now + step
                var asked = breaker
                var probe = lastProbe
                let before = breaker.state
                switch asked.mayDeliver(at: now) {
                case .deliver: #expect(before == .closed && asked == breaker)
                case .probe:
                    if before == .halfOpen { #expect(now - (lastProbe ?? 0) >= settings.probeMilliseconds) }
                    #expect(before != .closed && asked.state == .halfOpen)
                    probe = now
                case .wait(let end):
                    #expect(before != .closed && end > now && end <= now + settings.probeMilliseconds)
                    var later = asked
                    #expect(later.mayDeliver(at: end) == .probe)
                }
                explore(asked, now, probe, depth - 1)
                var good = breaker
                good.succeeded(at: now)
                #expect(good.state == .closed && good.failures == 0)
                explore(good, now, nil, depth - 1)
                var bad = breaker
                bad.failed(at: now, using: &most)
                #expect(bad.failures == breaker.failures + 1)
                #expect((bad.state == .closed) == (before == .closed && bad.failures < 2))
                explore(bad, now, lastProbe, depth - 1)
            }
        }
        explore(CircuitBreaker(settings, at: 0), 0, nil, 5)
    }
}
