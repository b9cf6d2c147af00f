public import Runtime

/// Says whether it is worth while to deliver at all: after some failures in a row it asks for a pause, then for one delivery
/// alone as a probe, and for longer and longer pauses while probes fail. A value without a clock: moments are given.
///
/// Each delivery that `mayDeliver` lets through ends with `succeeded`, `failed` or `notSent`; those that were under way when the breaker
/// opened may, too. A success closes the breaker, whichever delivery it is of: it shows that the other side is there.
public struct CircuitBreaker: Sendable, Equatable {
    public struct Settings: Sendable, Equatable {
        /// So many failures in a row open it.
        public var failures = 5
        /// The first pause is at most so long, the next twice that, and so on.
        public var firstPauseMilliseconds: Milliseconds = 1_000
        public var longestPauseMilliseconds: Milliseconds = 60_000
        /// A probe of which nothing is heard for so long is given up, and there is another: at least a delivery's timeout.
        public var probeMilliseconds: Milliseconds = 60_000

        public init() {}
    }

    public enum State: String, Sendable {
        case closed
        case open
        /// A probe is under way.
        case halfOpen = "half-open"
    }

    public enum Decision: Sendable, Equatable {
        case deliver
        /// This one, and no other until it has ended.
        case probe
        /// Nothing now; ask again then, or when a delivery has ended.
        case wait(until: Milliseconds)
    }

    public private(set) var state = State.closed
    /// When it came into its state.
    public private(set) var sinceMilliseconds: Milliseconds
    /// In a row, up to now.
    public private(set) var failures = 0
    /// How often it has opened since it was closed last, failed probes included.
    public private(set) var openings = 0
    private var pauseEndMilliseconds: Milliseconds = 0
    private let settings: Settings

    /// - Parameter now: milliseconds of any clock that never steps back, as in all other calls.
    public init(_ settings: Settings = Settings(), at now: Milliseconds) {
        self.settings = settings
        sinceMilliseconds = now
    }

    /// Asks before a delivery that is ready to go: a probe that is let through is expected to go.
    public mutating func mayDeliver(at now: Milliseconds) -> Decision {
        switch state {
        case .closed: return .deliver
        case .open:
            guard now >= pauseEndMilliseconds else { return .wait(until: pauseEndMilliseconds) }
        case .halfOpen:
            let end = sinceMilliseconds + settings.probeMilliseconds
            guard now >= end else { return .wait(until: end) }
        }
        enter(.halfOpen, at: now)
        return .probe
    }

    /// A delivery has succeeded.
    public mutating func succeeded(at now: Milliseconds) {
        failures = 0
        openings = 0
        if state != .closed { enter(.closed, at: now) }
    }

    /// A delivery has failed, whatever the reason.
    ///
    /// - Parameters:
    ///   - retryAfterMilliseconds: the other side has asked for a pause: it gets one at once, and not a shorter one.
    ///   - generator: for the jitter: a pause is any time up to its most, so that gateways don't come back all together.
    public mutating func failed(
        at now: Milliseconds, retryAfterMilliseconds: Milliseconds? = nil,
        using generator: inout some RandomNumberGenerator
    ) {
        failures += 1
        switch state {
        case .closed:
            guard failures >= settings.failures || retryAfterMilliseconds != nil else { return }
            open(at: now, retryAfterMilliseconds, using: &generator)
        case .halfOpen: open(at: now, retryAfterMilliseconds, using: &generator)
        case .open:
            // One that was under way before: no reason for a longer pause than it asks for.
            if let retryAfterMilliseconds {
                pauseEndMilliseconds = max(pauseEndMilliseconds, now + retryAfterMilliseconds)
            }
        }
    }

    /// A delivery was not sent, for reasons of this side. A probe of which that is true is repeated after a moment.
    public mutating func notSent(at now: Milliseconds) {
        guard state == .halfOpen else { return }
        pauseEndMilliseconds = now + settings.firstPauseMilliseconds
        enter(.open, at: now)
    }

    private mutating func open(
        at now: Milliseconds, _ least: Milliseconds?, using generator: inout some RandomNumberGenerator
    ) {
        var most = min(settings.firstPauseMilliseconds, settings.longestPauseMilliseconds)
        for _ in 0..<min(openings, 62) where most < settings.longestPauseMilliseconds {
            most = most > settings.longestPauseMilliseconds / 2 ? settings.longestPauseMilliseconds : most * 2
        }
        let pause = Milliseconds.random(in: 0...max(0, most), using: &generator)
        openings += 1
        pauseEndMilliseconds = now + max(pause, least ?? 0)
        enter(.open, at: now)
    }

    private mutating func enter(_ new: State, at now: Milliseconds) {
        state = new
        sinceMilliseconds = now
    }
}
