import Runtime
import Synchronization

/// What all loops of a server share: how many connections are open, in all and by address, and how much memory their
/// bodies take.
final class SharedBudget: Sendable {
    private let connections = Atomic<Int>(0)
    private let maxConnections: Int
    private let addresses: AddressLimit?
    private let unlimited: [IPNetwork]
    private let memory: MemoryBudget
    /// What responses and streams may hold that wait for their peers.
    let output: OutputBudget

    init(_ settings: HTTPServerSettings) {
        maxConnections = settings.maxConnections
        memory = settings.memory
        output = settings.output
        unlimited = settings.unlimitedNetworks
        addresses = settings.maxConnectionsPerAddress.map { AddressLimit($0, except: settings.unlimitedNetworks) }
    }

    /// Takes a place for a connection from an address, or says (having taken nothing) why there is none.
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

    /// Takes `count` bytes for a small body; false (and nothing taken) where they are not there.
    func takeBody(_ count: Int) -> Bool { memory.take(count) }

    func releaseBody(_ count: Int) { memory.giveBack(count) }

    /// Takes bytes for a body that has grown large, of its peer's share.
    func takeLargeBody(_ count: Int, _ address: IPAddress) -> MemoryShare? {
        memory.take(count, for: unlimited.contains { $0.contains(address) } ? nil : address)
    }

    /// Bytes taken now, for tests that check nothing leaks.
    var bodyBytesTaken: Int { memory.taken }
}

/// What a connection has taken of the server's budget, to be given back once.
struct Permits {
    /// Whose connections are counted.
    let limited: IPAddress?
}

/// Why a connection is not served.
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
