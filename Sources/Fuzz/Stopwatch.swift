import Glibc

/// Times in seconds, from no particular point on.
enum Stopwatch {
    /// What has passed for everybody.
    static func passed() -> Double { read(CLOCK_MONOTONIC) }

    /// What this thread has worked: what others do on the machine is no part of it.
    static func worked() -> Double { read(CLOCK_THREAD_CPUTIME_ID) }

    private static func read(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
    }
}
