import Runtime
import Synchronization

/// Counts open connections by address. Any thread. Remembers only addresses that have one, so its size is bounded by the
/// number of connections.
final class AddressLimit: Sendable {
    private let most: Int
    private let exceptions: [IPNetwork]
    private let counts = Mutex<[IPAddress: Int]>([:])

    init(_ most: Int, except exceptions: [IPNetwork]) {
        self.most = most
        self.exceptions = exceptions
    }

    /// Whether an address is counted at all.
    func covers(_ address: IPAddress) -> Bool { !exceptions.contains { $0.contains(address) } }

    /// Takes a place; false (and nothing taken) where the address has as many as it may.
    func take(_ key: IPAddress) -> Bool {
        counts.withLock { counts in
            let count = counts[key, default: 0]
            guard count < most else { return false }
            counts[key] = count + 1
            return true
        }
    }

    func release(_ key: IPAddress) {
        counts.withLock { counts in
            guard let count = counts[key] else { return }
            counts[key] = count > 1 ? count - 1 : nil
        }
    }

    /// Addresses that have connections now.
    var addressCount: Int { counts.withLock { $0.count } }
}
