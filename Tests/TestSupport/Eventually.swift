import Glibc

/// Looks again until the condition holds; false after `seconds`.
public func eventually(seconds: Int = 60, _ condition: () throws -> Bool) rethrows -> Bool {
    for _ in 0..<(seconds * 500) {
        if try condition() { return true }
        usleep(2_000)
    }
    return try condition()
}
