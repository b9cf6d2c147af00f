public import Runtime

/// Decides whether a delivery is worth attempting. After several failures in a row it requires a pause, then allows one delivery as
/// a probe; the pauses become longer while probes fail. A value without a clock: the caller passes the time.
///
/// Each delivery that `mayDeliver` permits ends with `succeeded`, `failed` or `notSent`. Deliveries in flight when the breaker
/// opens report their end, too. A success of any delivery closes the breaker, because it shows that the other side is available.
public struct CircuitBreaker: Sendable, Equatable {
    public struct Settings: Sendable, Equatable {
        /// The number of failures in a row that opens the breaker.
        public var failures = 5
        /// The maximum of the first pause, and of all pauses. The maximum doubles with each pause.
        public var firstPauseMilliseconds: Milliseconds = 1_000
        public var longestPauseMilliseconds: Milliseconds = 60_000
        /// A probe without an outcome for this long is abandoned, and another one is allowed. Must be at least the timeout of a delivery.
        public var probeMilliseconds: Milliseconds = 60_000

        public init() {}
    }

    public enum State: String, Sendable {
        case closed
        case open
        /// A probe is in flight.
        case halfOpen = "half-open"
    }

    public enum Decision: Sendable, Equatable {
        case deliver
        /// Deliver once, and nothing else until that delivery has ended.
        case probe
        /// Deliver nothing now. Ask again at this time, or when a delivery has ended.
        case wait(until: Milliseconds)
    }

    public private(set) var state = State.closed
    /// The time of the last state change.
    public private(set) var sinceMilliseconds: Milliseconds
    /// The number of failures in a row up to now.
    public private(set) var failures = 0
    /// The number of openings since the breaker was last closed, including failed probes.
    public private(set) var openings = 0
    private var pauseEndMilliseconds: Milliseconds = 0
    private let settings: Settings

    /// - Parameter now: The milliseconds of any clock that never steps back. All calls use the same clock.
    public init(_ settings: Settings = Settings(), at now: Milliseconds) {
        self.settings = settings
        sinceMilliseconds = now
    }

    /// Returns whether a delivery may start. After `.probe` the caller must start it.
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

    /// Records that a delivery has succeeded.
    public mutating func succeeded(at now: Milliseconds) {
        failures = 0
        openings = 0
        if state != .closed { enter(.closed, at: now) }
    }

    /// Records that a delivery has failed for any reason.
    ///
    /// - Parameters:
    ///   - retryAfterMilliseconds: The pause that the other side has requested. The breaker opens at once and waits at least that long.
    ///   - generator: The source of jitter. A pause lasts any time up to its maximum, so that gateways do not retry simultaneously.
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
            // The delivery was in flight when the breaker opened. It extends the pause only if the other side requests that.
            if let retryAfterMilliseconds {
                pauseEndMilliseconds = max(pauseEndMilliseconds, now + retryAfterMilliseconds)
            }
        }
    }

    /// Records that a delivery was not sent for reasons on this side. A probe is repeated after a short pause.
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
