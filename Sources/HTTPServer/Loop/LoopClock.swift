import Glibc

/// The clocks that a loop reads, both to the kernel's tick (a few milliseconds) and so without a system call.
enum LoopClock {
    /// Milliseconds of a clock that never goes back.
    @inline(__always)
    static var monotonicMilliseconds: Int {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now)
        return now.tv_sec * 1000 + now.tv_nsec / 1_000_000
    }

    /// Seconds since 1970.
    @inline(__always)
    static var second: time_t {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME_COARSE, &now)
        return now.tv_sec
    }
}
