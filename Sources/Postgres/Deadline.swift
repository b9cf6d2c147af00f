import Glibc
import Runtime

/// The end of a wait: a point in time on the monotonic clock, or the end of a period of silence.
struct Deadline {
    private let nanoseconds: UInt64
    /// The maximum period of silence in one wait, or nil for a point in time.
    private let silenceMilliseconds: Int32?
    /// Whether the period starts when a byte last moved, instead of at the beginning of each wait.
    private var isCommon = false

    /// No deadline.
    static let never = Deadline(nanoseconds: .max)

    private init(nanoseconds: UInt64, silenceMilliseconds: Int32? = nil) {
        self.nanoseconds = nanoseconds
        self.silenceMilliseconds = silenceMilliseconds
    }

    /// Returns a deadline after `milliseconds` in which no byte moves in either direction. Zero or less means never,
    /// and so does anything beyond poll's 24 days.
    static func silence(ms milliseconds: Milliseconds) -> Deadline {
        guard milliseconds > 0, let period = Int32(exactly: milliseconds) else { return .never }
        return Deadline(nanoseconds: .max, silenceMilliseconds: period)
    }

    /// Returns a deadline like `silence`, for several waits that together form one.
    static func commonSilence(ms milliseconds: Milliseconds) -> Deadline {
        var deadline = silence(ms: milliseconds)
        deadline.isCommon = true
        return deadline
    }

    /// Creates a deadline `milliseconds` from now. Zero or less means never, and so does anything beyond poll's 24
    /// days.
    init(afterMilliseconds milliseconds: Milliseconds) {
        let isNever = milliseconds <= 0 || milliseconds > Int(Int32.max)
        nanoseconds = isNever ? .max : Self.now() + UInt64(milliseconds) * 1_000_000
        silenceMilliseconds = nil
    }

    /// Returns the end of the first of `share` equal parts of the remaining time.
    func firstPart(of share: Int) -> Deadline {
        guard nanoseconds != .max, share > 1 else { return self }
        let now = Self.now()
        return nanoseconds <= now ? self : Deadline(nanoseconds: now + (nanoseconds - now) / UInt64(share))
    }

    /// Returns the timeout argument for poll(2): rounded up, so that a wait never ends early; -1 for never.
    ///
    /// - Parameter movedAt: the monotonic millisecond at which a byte last moved.
    func pollTimeout(movedAt: Int64) -> Int32 {
        if let silenceMilliseconds {
            guard isCommon else { return silenceMilliseconds }
            return Int32(max(0, Int64(silenceMilliseconds) - max(0, Self.nowMilliseconds - movedAt)))
        }
        guard nanoseconds != .max else { return -1 }
        let now = Self.now()
        guard nanoseconds > now else { return 0 }
        return Int32(min((nanoseconds - now + 999_999) / 1_000_000, UInt64(Int32.max)))
    }

    static var nowMilliseconds: Int64 { Int64(now() / 1_000_000) }

    private static func now() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
