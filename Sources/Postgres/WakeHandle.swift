import CPostgres
import Glibc

/// Ends a thread's wait from any other thread. An eventfd(2) that the waiting thread polls together with its socket.
///
/// A wake before the wait is not lost: the next wait returns at once. Several wakes before the wait count as one.
public final class WakeHandle: Sendable {
    let descriptor: Int32

    /// Creates a handle.
    ///
    /// - Throws: a `connect` error if the process has no file descriptor left.
    public init() throws(PostgresError) {
        descriptor = pathmirror_pq_wake_descriptor()
        if descriptor < 0 {
            throw PostgresError(.connect, "cannot create an eventfd: \(systemErrorText(errno))")
        }
    }

    deinit {
        if descriptor >= 0 {
            close(descriptor)
        }
    }

    /// Ends the current wait, or the next one. Thread-safe; never blocks.
    public func wake() {
        var one: UInt64 = 1
        // A full counter (EAGAIN) means that a wake is already pending, which is sufficient.
        _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
    }

    /// Removes the pending wake, if any.
    func drain() {
        var count: UInt64 = 0
        _ = read(descriptor, &count, MemoryLayout<UInt64>.size)
    }
}

/// Returns the text for an `errno` value.
func systemErrorText(_ code: Int32) -> String {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { buffer in
        guard let base = buffer.baseAddress, strerror_r(code, base, buffer.count) == 0 else { return "error \(code)" }
        return String(cString: base)
    }
}
