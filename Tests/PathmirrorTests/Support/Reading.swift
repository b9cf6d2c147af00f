import Glibc
import Runtime

/// Reads a descriptor to its end on a thread of its own.
final class Reading: Sendable {
    private let bytes = Condition<(all: [UInt8], isAtEnd: Bool)>(([], false))
    private let thread: Thread

    init(_ descriptor: Int32) {
        let bytes = self.bytes
        thread = Thread(name: "reading") {
            var piece = [UInt8](repeating: 0, count: 10_000)
            while case let count = read(descriptor, &piece, piece.count), count > 0 {
                bytes.broadcast { $0.all += piece[..<count] }
            }
            bytes.broadcast { $0.isAtEnd = true }
        }
    }

    /// All bytes, once the other end is closed.
    func all() -> [UInt8] {
        thread.join()
        return bytes.withLock { $0.all }
    }
}
