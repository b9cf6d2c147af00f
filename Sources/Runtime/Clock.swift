internal import Glibc

/// Times of the system.
public enum Clock {
    /// Milliseconds since 1970; may step.
    public static var unixMilliseconds: Milliseconds {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Nanoseconds since some moment; never steps back. For durations and deadlines.
    public static var monotonicNanoseconds: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    public static var monotonicMilliseconds: Milliseconds { Int64(monotonicNanoseconds / 1_000_000) }

    /// The same moments as `monotonicMilliseconds`, to the kernel's tick (a few milliseconds), and cheaper to read: for
    /// loops that look at the time with every request.
    public static var coarseMilliseconds: Milliseconds {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Seconds since 1970, to the kernel's tick.
    public static var coarseUnixSeconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME_COARSE, &time)
        return Int64(time.tv_sec)
    }
}
