public import Runtime
import Synchronization

/// Limits the memory of data that peers send, in total and for each address: bodies that are being received or
/// answered, decompressed bodies, incomplete messages, and parsed trees that wait. Any thread.
///
/// Requests over the limit are refused, so that no number of callers, and no single caller, can use up all memory.
public final class MemoryBudget: Sendable {
    public let bytes: Int
    public let bytesPerAddress: Int
    private let total = Atomic<Int>(0)
    private let addresses = Mutex<[IPAddress: Int]>([:])
    private let refusals = Atomic<Int>(0)

    /// - Parameters:
    ///   - bytes: the limit of all shares together. Callers without an address are served beyond it while the other
    ///     shares take less than half of it.
    ///   - bytesPerAddress: the limit of one IPv4 address or one IPv6 /64 network.
    public init(bytes: Int, bytesPerAddress: Int? = nil) {
        self.bytes = bytes
        self.bytesPerAddress = bytesPerAddress ?? bytes
    }

    /// The number of acquired bytes.
    public var taken: Int { total.load(ordering: .relaxed) }

    /// The number of refusals because the budget was exhausted.
    public var refused: Int { refusals.load(ordering: .relaxed) }

    /// Acquires bytes until the share is deallocated; returns nil and acquires nothing if the budget is exhausted.
    ///
    /// - Parameters:
    ///   - address: the caller's address; nil for callers without a limit by address, such as proxies and
    ///     administrators.
    ///   - own: bytes that the same caller has acquired in another share, such as the body that is being parsed.
    public func take(_ count: Int, for address: IPAddress?, beside own: Int = 0) -> MemoryShare? {
        let share = MemoryShare(self, address?.limitKey, own)
        return share.grow(by: count) ? share : nil
    }

    /// Acquires bytes without an address. Return them with `giveBack`.
    func take(_ count: Int, of own: Int = 0) -> Bool {
        let before = total.wrappingAdd(count, ordering: .relaxed).oldValue
        if before + count <= bytes || before - own <= bytes / 2 { return true }
        total.wrappingSubtract(count, ordering: .relaxed)
        refusals.wrappingAdd(1, ordering: .relaxed)
        return false
    }

    func giveBack(_ count: Int) { total.wrappingSubtract(count, ordering: .relaxed) }

    /// Shares of at most this many bytes may use the whole budget.
    private static let smallShareBytes = 64 * 1024
    /// Smaller budgets have no reserve.
    private static let leastWithReserve = 16 * 1024 * 1024

    /// Acquires bytes of an address's share. The last sixteenth of the budget is reserved for small shares, so that
    /// large ones from many addresses do not block small requests.
    private func takeHeld(_ count: Int, of share: Int) -> Bool {
        let isSmall = share + count <= Self.smallShareBytes || bytes < Self.leastWithReserve
        let limit = isSmall ? bytes : bytes - bytes / 16
        let before = total.wrappingAdd(count, ordering: .relaxed).oldValue
        if before + count <= limit || before == 0 { return true }
        total.wrappingSubtract(count, ordering: .relaxed)
        refusals.wrappingAdd(1, ordering: .relaxed)
        return false
    }

    fileprivate func take(_ count: Int, _ key: IPAddress, of share: Int) -> Bool {
        let hasRoom = addresses.withLock { addresses in
            let taken = addresses[key, default: 0]
            guard taken == 0 || taken + count <= bytesPerAddress else { return false }
            addresses[key] = taken + count
            return true
        }
        guard hasRoom else {
            refusals.wrappingAdd(1, ordering: .relaxed)
            return false
        }
        if takeHeld(count, of: share) { return true }
        giveBackShare(count, key)
        return false
    }

    fileprivate func giveBack(_ count: Int, _ key: IPAddress) {
        giveBackShare(count, key)
        giveBack(count)
    }

    private func giveBackShare(_ count: Int, _ key: IPAddress) {
        addresses.withLock { addresses in
            guard let taken = addresses[key] else { return }
            addresses[key] = taken > count ? taken - count : nil
        }
    }
}

/// A share of a budget. Its bytes return to the budget when the last reference is released. Any thread.
public final class MemoryShare: Sendable {
    private let budget: MemoryBudget
    private let key: IPAddress?
    private let own: Int
    private let count = Atomic<Int>(0)

    fileprivate init(_ budget: MemoryBudget, _ key: IPAddress?, _ own: Int) {
        self.budget = budget
        self.key = key
        self.own = own
    }

    deinit { giveBack(count.load(ordering: .relaxed)) }

    public var bytes: Int { count.load(ordering: .relaxed) }

    /// Acquires more bytes; returns false and acquires nothing if the budget is exhausted. The first bytes of an
    /// otherwise idle address may exceed its limit; later ones have to fit.
    public func grow(by more: Int) -> Bool {
        guard more > 0 else { return true }
        guard key.map({ budget.take(more, $0, of: own + bytes) }) ?? budget.take(more, of: own + bytes) else {
            return false
        }
        count.wrappingAdd(more, ordering: .relaxed)
        return true
    }

    /// Acquires or returns bytes so that the share has `bytes`; returns false and changes nothing if the budget is
    /// exhausted.
    public func resize(to bytes: Int) -> Bool {
        let now = self.bytes
        if bytes >= now { return grow(by: bytes - now) }
        shrink(by: now - bytes)
        return true
    }

    /// Returns bytes to the budget.
    public func shrink(by less: Int) {
        guard less > 0 else { return }
        count.wrappingSubtract(less, ordering: .relaxed)
        giveBack(less)
    }

    private func giveBack(_ count: Int) {
        guard count > 0 else { return }
        if let key { budget.giveBack(count, key) } else { budget.giveBack(count) }
    }
}
