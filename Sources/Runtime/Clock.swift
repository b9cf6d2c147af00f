internal import Glibc

/// Times of the system.
public enum Clock {
    /// Milliseconds since 1970; may step.
    public static var unixMilliseconds: Int64 {
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

    public static var monotonicMilliseconds: Int64 { Int64(monotonicNanoseconds / 1_000_000) }
}
