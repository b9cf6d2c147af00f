import Glibc
import Runtime

/// Checks a condition every two milliseconds until it holds.
///
/// - Parameter seconds: The time after which the condition is checked for the last time, however long each check takes.
/// - Returns: Whether the condition held.
public func eventually(seconds: Int = 60, _ condition: () throws -> Bool) rethrows -> Bool {
    let deadline = Clock.monotonicMilliseconds + Milliseconds(seconds) * 1_000
    while Clock.monotonicMilliseconds < deadline {
        if try condition() { return true }
        usleep(2_000)
    }
    return try condition()
}
