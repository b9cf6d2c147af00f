import Glibc

/// The name of the machine.
enum HostName {
    /// The name and the process, such as `db-7 (pid 4711)`, for people.
    static var ofThisMachine: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "pid \(getpid())" }
        let bytes = buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        return "\(String(decoding: bytes, as: UTF8.self)) (pid \(getpid()))"
    }
}
