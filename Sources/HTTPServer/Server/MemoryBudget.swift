public import Runtime
import Synchronization

/// What strangers' data may take of memory, in all and for each address: bodies that are being received or answered, what
/// comes out of packed ones, half-received messages, trees that were parsed and wait. Any thread.
///
/// Whoever takes more is refused, so that no number of callers, and nothing that one of them sends, takes all memory.
public final class MemoryBudget: Sendable {
    public let bytes: Int
    public let bytesPerAddress: Int
    private let total = Atomic<Int>(0)
    private let addresses = Mutex<[IPAddress: Int]>([:])
    private let refusals = Atomic<Int>(0)

    /// - Parameters:
    ///   - bytes: of everybody together. Who is not held to a share is served beyond it while others take less than half.
    ///   - bytesPerAddress: of one IPv4 address or one IPv6 /64 network.
    public init(bytes: Int, bytesPerAddress: Int? = nil) {
        self.bytes = bytes
        self.bytesPerAddress = bytesPerAddress ?? bytes
    }

    /// Bytes taken now.
    public var taken: Int { total.load(ordering: .relaxed) }

    /// How often there was no room.
    public var refused: Int { refusals.load(ordering: .relaxed) }

    /// Takes bytes until the share is let go of; nil (and nothing taken) where they are not there.
    ///
    /// - Parameters:
    ///   - address: whose they are; nil for who is not held to a share, as proxies and administrators are not.
    ///   - own: bytes that the same caller has taken otherwise, such as for the body that is parsed.
    public func take(_ count: Int, for address: IPAddress?, beside own: Int = 0) -> MemoryShare? {
        let share = MemoryShare(self, address?.limitKey, own)
        return share.grow(by: count) ? share : nil
    }

    /// Takes bytes of nobody's share, to be given back by `giveBack`.
    func take(_ count: Int, of own: Int = 0) -> Bool {
        let before = total.wrappingAdd(count, ordering: .relaxed).oldValue
        if before + count <= bytes || before - own <= bytes / 2 { return true }
        total.wrappingSubtract(count, ordering: .relaxed)
        refusals.wrappingAdd(1, ordering: .relaxed)
        return false
    }

    func giveBack(_ count: Int) { total.wrappingSubtract(count, ordering: .relaxed) }

    /// A share of up to this many bytes may use all of the budget.
    private static let smallShareBytes = 64 * 1024
    /// Budgets below this keep nothing back.
    private static let leastWithReserve = 16 * 1024 * 1024

    /// The last sixteenth is for small shares: large ones from many addresses must not keep small requests out.
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

/// Bytes of a budget that somebody has; they are given back when the last reference goes. Any thread.
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

    /// Takes more; false (and nothing taken) where it is not there. What it has already counts: the first may be as large
    /// as it is, what comes on top has to fit.
    public func grow(by more: Int) -> Bool {
        guard more > 0 else { return true }
        guard key.map({ budget.take(more, $0, of: own + bytes) }) ?? budget.take(more, of: own + bytes) else {
            return false
        }
        count.wrappingAdd(more, ordering: .relaxed)
        return true
    }

    /// Takes more, or gives some back, so that it is so many; false (and nothing changed) where they are not there.
    public func resize(to bytes: Int) -> Bool {
        let now = self.bytes
        if bytes >= now { return grow(by: bytes - now) }
        shrink(by: now - bytes)
        return true
    }

    /// Gives some back.
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
