internal import Glibc
internal import Synchronization

/// A lock with a condition variable, for threads that wait for one another.
///
/// @unchecked Sendable is safe: `value` is only accessed with the lock held, and the lock and condition have stable
/// addresses of their own until `deinit`.
public final class Condition<Value: Sendable>: @unchecked Sendable {
    private var value: Value
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>

    public init(_ value: Value) {
        self.value = value
        mutex = .allocate(capacity: 1)
        condition = .allocate(capacity: 1)
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        // Deadlines must not move when the wall clock is set.
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    /// Runs `body` with the lock held.
    public func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body(&value)
    }

    /// Like `withLock`, and wakes one waiting thread.
    public func signal<Result>(_ body: (inout Value) -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer {
            pthread_cond_signal(condition)
            pthread_mutex_unlock(mutex)
        }
        return body(&value)
    }

    /// Like `withLock`, and wakes all waiting threads.
    public func broadcast<Result>(_ body: (inout Value) -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer {
            pthread_cond_broadcast(condition)
            pthread_mutex_unlock(mutex)
        }
        return body(&value)
    }

    /// Waits until `body` returns a value; returns nil at the deadline, a monotonic time in nanoseconds. `body` runs
    /// with the lock held, once at the start and after every wake.
    public func wait<Result>(untilNanoseconds deadline: UInt64, _ body: (inout Value) -> Result?) -> Result? {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        var time = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
        while true {
            if let result = body(&value) { return result }
            if pthread_cond_timedwait(condition, mutex, &time) == ETIMEDOUT { return body(&value) }
        }
    }

    /// Waits until `body` returns a value; returns nil after `milliseconds`. `body` runs with the lock held, once at
    /// the start and after every wake.
    public func wait<Result>(milliseconds: Milliseconds? = nil, until body: (inout Value) -> Result?) -> Result? {
        if let milliseconds {
            // 35 years at most, so that the sum does not overflow.
            let left = UInt64(min(max(0, milliseconds), 1 << 40)) * 1_000_000
            return wait(untilNanoseconds: Clock.monotonicNanoseconds + left, body)
        }
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&value) { return result }
            pthread_cond_wait(condition, mutex)
        }
    }
}

/// A value that several threads share by reference, protected by a lock.
public final class MutexBox<Value: Sendable>: Sendable {
    private let mutex: Mutex<Value>

    public init(_ value: Value) { mutex = Mutex(value) }

    /// Runs `body` with the lock held.
    public func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
        mutex.withLock { value in body(&value) }
    }
}
