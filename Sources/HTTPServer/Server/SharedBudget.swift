import Runtime
import Synchronization

/// The budgets that all loops of a server share: open connections, in total and by address, and the memory of bodies
/// and output.
final class SharedBudget: Sendable {
    private let connections = Atomic<Int>(0)
    private let maxConnections: Int
    private let addresses: AddressLimit?
    private let unlimited: [IPNetwork]
    private let memory: MemoryBudget
    /// The budget of unsent responses and stream output.
    let output: OutputBudget

    init(_ settings: HTTPServerSettings) {
        maxConnections = settings.maxConnections
        memory = settings.memory
        output = settings.output
        unlimited = settings.unlimitedNetworks
        addresses = settings.maxConnectionsPerAddress.map { AddressLimit($0, except: settings.unlimitedNetworks) }
    }

    /// Acquires a permit for a connection from an address; on failure acquires nothing and returns the reason.
    func takeConnection(_ address: IPAddress) -> Result<Permits, Refusal> {
        guard connections.wrappingAdd(1, ordering: .relaxed).newValue <= maxConnections else {
            connections.wrappingSubtract(1, ordering: .relaxed)
            return .failure(.full)
        }
        guard let addresses, addresses.covers(address) else { return .success(Permits(limited: nil)) }
        let key = address.limitKey
        guard addresses.take(key) else {
            connections.wrappingSubtract(1, ordering: .relaxed)
            return .failure(.tooManyFromAddress)
        }
        return .success(Permits(limited: key))
    }

    func releaseConnection(_ permits: Permits) {
        connections.wrappingSubtract(1, ordering: .relaxed)
        if let key = permits.limited { addresses?.release(key) }
    }

    /// Acquires `count` bytes for a small body; returns false and acquires nothing if the budget is exhausted.
    func takeBody(_ count: Int) -> Bool { memory.take(count) }

    func releaseBody(_ count: Int) { memory.giveBack(count) }

    /// Acquires bytes for a large body from its peer's share.
    func takeLargeBody(_ count: Int, _ address: IPAddress) -> MemoryShare? {
        memory.take(count, for: unlimited.contains { $0.contains(address) } ? nil : address)
    }

    /// The number of acquired bytes, for tests that check for leaks.
    var bodyBytesTaken: Int { memory.taken }
}

/// A connection's permits of the server's budget, to be released once.
struct Permits {
    /// The address whose connections are counted, if it is limited.
    let limited: IPAddress?
}

/// The reason for refusing a connection.
enum Refusal: Error {
    case full
    case tooManyFromAddress

    var status: Int {
        switch self {
        case .full: 503
        case .tooManyFromAddress: 429
        }
    }

    var text: String {
        switch self {
        case .full: "The server has no room for another connection. Try again later."
        case .tooManyFromAddress: "Too many requests"
        }
    }
}

/// Counts open connections by address. Any thread. Contains only addresses with connections, so its size is bounded by
/// the number of connections.
final class AddressLimit: Sendable {
    private let most: Int
    private let exceptions: [IPNetwork]
    private let counts = Mutex<[IPAddress: Int]>([:])

    init(_ most: Int, except exceptions: [IPNetwork]) {
        self.most = most
        self.exceptions = exceptions
    }

    /// Returns whether an address is limited.
    func covers(_ address: IPAddress) -> Bool { !exceptions.contains { $0.contains(address) } }

    /// Acquires a permit; returns false and acquires nothing if the address has reached its limit.
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

    /// The number of addresses that have connections now.
    var addressCount: Int { counts.withLock { $0.count } }
}
