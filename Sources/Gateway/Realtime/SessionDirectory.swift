import Crypto
import Runtime

/// Where each realtime session lives: its loop.
final class SessionDirectory: Sendable {
    private let loops = Condition<[String: LoopLink]>([:])

    func add(_ session: String, _ link: LoopLink) { loops.withLock { $0[session] = link } }
    func remove(_ session: String) { loops.broadcast { $0[session] = nil } }

    /// 32 hex digits that nobody can guess: session ids and their passwords.
    static func makeToken() -> String {
        var generator = SystemRandomNumberGenerator()
        let words = (generator.next() as UInt64, generator.next() as UInt64)
        return withUnsafeBytes(of: words) { Hex.encode($0) }
    }

    /// The loop of one of the sessions.
    var anyLink: LoopLink? { loops.withLock { $0.first?.value } }

    /// Closes all sessions, on their loops.
    func closeAll() {
        let links = loops.withLock { loops in
            Dictionary(loops.values.map { (ObjectIdentifier($0), $0) }) { first, _ in first }
        }
        for link in links.values { link.post { $0.closeSessions() } }
    }

    /// Waits until no session is left; at most so long.
    func waitUntilEmpty(milliseconds: Int64) {
        _ = loops.wait(milliseconds: milliseconds) { $0.isEmpty ? true : nil }
    }

    func link(of session: String) -> LoopLink? { loops.withLock { $0[session] } }
}
