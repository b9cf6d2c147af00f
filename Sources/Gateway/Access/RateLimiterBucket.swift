/// A bucket of tokens that fills steadily up to its limit's burst. No clock: callers tell it the time.
struct TokenBucket: Sendable {
    private var tokens: Double
    private var updatedMilliseconds: Int64

    /// A full one.
    init(_ limit: RateLimit, nowMilliseconds: Int64) {
        tokens = limit.burst
        updatedMilliseconds = nowMilliseconds
    }

    /// Takes `amount`, or says (having taken nothing) in how many milliseconds it may be asked for again.
    ///
    /// What is larger than what is there is let through all the same once there is a token at all; those that come
    /// later wait the longer. Otherwise nothing larger than the burst would ever get through.
    mutating func take(_ amount: Double, _ limit: RateLimit, nowMilliseconds: Int64) -> Int64? {
        fill(limit, nowMilliseconds)
        let needed = min(amount, 1)
        // The fill of many short times may be short of a whole by rounding.
        if tokens + 1e-9 >= needed {
            tokens -= amount
            return nil
        }
        return Int64(((needed - tokens) * 1_000 / limit.perSecond).rounded(.up))
    }

    private mutating func fill(_ limit: RateLimit, _ nowMilliseconds: Int64) {
        // A clock that steps back adds nothing.
        let elapsed = max(0, nowMilliseconds - updatedMilliseconds)
        updatedMilliseconds = max(updatedMilliseconds, nowMilliseconds)
        tokens = min(limit.burst, tokens + Double(elapsed) * limit.perSecond / 1_000)
    }
}
