import Crypto
import Runtime

/// Where each realtime session lives. Shared by all loops.
final class SessionDirectory: Sendable {
    private let homes = Condition<[String: any SessionHome]>([:])

    func add(_ session: String, _ home: any SessionHome) { homes.withLock { $0[session] = home } }
    func remove(_ session: String) { homes.broadcast { $0[session] = nil } }

    func home(of session: String) -> (any SessionHome)? { homes.withLock { $0[session] } }

    /// The home of one of the sessions.
    var anyHome: (any SessionHome)? { homes.withLock { $0.first?.value } }

    /// Closes all sessions whose namespaces live in a database, on their loops.
    func closeAll(in database: Int) {
        let homes = homes.withLock { homes in
            Dictionary(homes.values.map { (ObjectIdentifier($0), $0) }) { first, _ in first }
        }
        for home in homes.values { home.closeAll(in: database) }
    }

    /// Waits until no session is left; at most so long.
    func waitUntilEmpty(milliseconds: Milliseconds) {
        _ = homes.wait(milliseconds: milliseconds) { $0.isEmpty ? true : nil }
    }

    /// 32 hex digits that nobody can guess: session ids and their passwords.
    static func makeToken() -> String {
        var generator = SystemRandomNumberGenerator()
        let words = (generator.next() as UInt64, generator.next() as UInt64)
        return withUnsafeBytes(of: words) { Hex.encode($0) }
    }
}
