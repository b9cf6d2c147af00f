import HTTPServer
import Rules
public import Runtime
import Synchronization

/// Enforces the rate limits. Shared by all loops; any thread. Its memory is bounded regardless of the callers.
final class RateLimiter: Sendable {
    enum Kind: String, CaseIterable, Sendable {
        case address
        case identity
        case writeBytes = "write_bytes"
    }

    /// The limit that was exceeded, and the time until the next attempt.
    struct Refusal: Error, Sendable, Equatable {
        let kind: Kind
        let waitMilliseconds: Milliseconds

        /// The value of `Retry-After`.
        var seconds: Int { Int((waitMilliseconds + 999) / 1_000) }
    }

    /// A user of one namespace. The same name may mean another user in another namespace.
    struct Caller: Hashable, Sendable {
        let namespace: String
        let name: String
    }

    let settings: RateLimiterSettings
    private let now: @Sendable () -> Int64
    private let addresses: LimitBuckets<IPAddress>?
    private let identities: LimitBuckets<Caller>?
    private let namespaces: LimitBuckets<String>?
    private let refusals: [Counter]

    /// - Parameter now: returns monotonic milliseconds.
    init(_ settings: RateLimiterSettings, now: @escaping @Sendable () -> Int64 = { Clock.monotonicMilliseconds }) {
        self.settings = settings
        self.now = now
        addresses = settings.perAddress.map { LimitBuckets($0, most: settings.maxTracked) }
        identities = settings.perIdentity.map { LimitBuckets($0, most: settings.maxTracked) }
        namespaces = settings.writeBytes.map { LimitBuckets($0, most: settings.maxTracked) }
        refusals = Kind.allCases.map { _ in Counter() }
    }

    /// Counts a request or message from an address; returns nil if it may be served.
    func request(from address: IPAddress) -> Refusal? {
        guard let addresses, !isTrusted(address) else { return nil }
        return counted(.address, addresses.take(1, of: address.limitKey, now()))
    }

    /// Counts a request or message of an identity; returns nil if it may be served.
    func request(by identity: Identity, in namespace: String) -> Refusal? {
        guard let identities, !identity.context.isAdmin, let name = identity.name else { return nil }
        return counted(.identity, identities.take(1, of: Caller(namespace: namespace, name: name), now()))
    }

    /// Counts a write of `byteCount` bytes; returns nil if it may be served.
    func write(_ byteCount: Int, to namespace: String) -> Refusal? {
        guard let namespaces else { return nil }
        return counted(.writeBytes, namespaces.take(Double(max(1, byteCount)), of: namespace, now()))
    }

    /// How often each limit was exceeded.
    var counts: [(kind: Kind, count: Int)] { zip(Kind.allCases, refusals).map { ($0, $1.current) } }

    private func counted(_ kind: Kind, _ waitMilliseconds: Milliseconds?) -> Refusal? {
        guard let waitMilliseconds else { return nil }
        for (other, counter) in zip(Kind.allCases, refusals) where other == kind { counter.add() }
        return Refusal(kind: kind, waitMilliseconds: waitMilliseconds)
    }

    // MARK: Addresses

    func isTrusted(_ address: IPAddress) -> Bool { settings.trustedProxies.contains { $0.contains(address) } }

    /// Returns the client's address: the peer's, or, if the peer is a trusted proxy, the address that it reports.
    /// `forwarded` returns the request's `X-Forwarded-For` headers, and is called only for trusted peers.
    ///
    /// Every proxy appends the address of its own peer. So the client is the last address that is not a trusted proxy;
    /// a client can invent all addresses before it.
    func client(_ peer: IPAddress, forwarded: () -> [String]) -> IPAddress {
        guard isTrusted(peer) else { return peer }
        var client = peer
        for text in forwarded().flatMap({ $0.split(separator: ",", omittingEmptySubsequences: false) }).reversed() {
            // An unreadable address hides everything before it.
            guard let address = ForwardedHeaders.address(text) else { return client }
            client = address
            if !isTrusted(address) { return client }
        }
        return client
    }
}

/// A steady rate, and the burst that is allowed after a pause.
public struct RateLimit: Sendable, Equatable {
    public let perSecond: Double
    public let burst: Double

    public init(perSecond: Double, burst: Double) {
        self.perSecond = perSecond
        self.burst = burst
    }

    /// Parses `N/s`, `N/m` or `N/h`, optionally followed by `:BURST`; the default burst is N. Returns nil for anything
    /// else. All numbers are whole and positive.
    public init?(_ text: String) { self.init(text, amount: Self.number) }

    /// Parses a limit whose amounts have another form, such as sizes in bytes.
    ///
    /// - Parameter amount: parses an amount; returns nil for invalid text.
    public init?(_ text: String, amount: (Substring) -> Int?) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let rate = parts[0].split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard rate.count == 2, let count = amount(rate[0]), count > 0 else { return nil }
        let seconds: Double
        switch rate[1] {
        case "s": seconds = 1
        case "m": seconds = 60
        case "h": seconds = 3_600
        default: return nil
        }
        var burst = count
        if parts.count == 2 {
            guard let given = amount(parts[1]), given > 0 else { return nil }
            burst = given
        }
        self.init(perSecond: Double(count) / seconds, burst: Double(burst))
    }

    private static func number(_ text: Substring) -> Int? {
        guard (1...12).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int(text)
    }
}

/// The rate limits of this gateway; the gateways of a database count separately. Everything is unlimited by default.
public struct RateLimiterSettings: Sendable {
    /// The limit of requests and realtime messages of one IPv4 address or one IPv6 /64 network, regardless of identity.
    public var perAddress: RateLimit?
    /// The limit of requests and realtime messages of one user of a namespace. Administrators and callers without
    /// credentials are exempt.
    public var perIdentity: RateLimit?
    /// The limit of bytes written to one namespace by all callers.
    public var writeBytes: RateLimit?
    /// Proxies whose `X-Forwarded-For` is believed. They are not limited themselves.
    public var trustedProxies: [IPNetwork] = []
    /// Maximum number of addresses, and of identities, that are tracked. Beyond it, the least recently active one is
    /// removed.
    public var maxTracked = 65_536
    /// Number of consecutive refused messages after which the gateway disconnects a realtime client.
    public var maxRefusedMessages = 100

    public init() {}
}

/// The buckets of one limit by caller, in parts with a lock each.
final class LimitBuckets<Key: Hashable & Sendable>: Sendable {
    private final class Part: Sendable {
        let buckets: Mutex<RecentTable<Key, TokenBucket>>

        init(capacity: Int) { buckets = Mutex(RecentTable(capacity: capacity)) }
    }

    private let limit: RateLimit
    private let parts: [Part]

    /// - Parameter most: maximum number of tracked callers.
    init(_ limit: RateLimit, most: Int) {
        self.limit = limit
        let count = most >= 1_024 ? 16 : 1
        parts = (0..<count).map { _ in Part(capacity: most / count) }
    }

    /// Takes tokens from a caller's bucket, or returns in how many milliseconds the caller may retry.
    func take(_ amount: Double, of key: Key, _ nowMilliseconds: Int64) -> Int64? {
        part(of: key).buckets.withLock { buckets in
            buckets.with(key, new: TokenBucket(limit, nowMilliseconds: nowMilliseconds)) { bucket in
                bucket.take(amount, limit, nowMilliseconds: nowMilliseconds)
            }
        }
    }

    private func part(of key: Key) -> Part { parts[Int(UInt(bitPattern: key.hashValue) % UInt(parts.count))] }
}

/// A bucket of tokens that fills steadily up to its limit's burst. It has no clock: callers pass the time.
struct TokenBucket: Sendable {
    private var tokens: Double
    private var updatedMilliseconds: Int64

    /// Creates a full bucket.
    init(_ limit: RateLimit, nowMilliseconds: Int64) {
        tokens = limit.burst
        updatedMilliseconds = nowMilliseconds
    }

    /// Takes `amount` tokens. If there are too few, takes none and returns in how many milliseconds the caller may
    /// retry.
    ///
    /// A single available token admits any amount; later callers then wait longer. Otherwise an amount above the burst
    /// could never be admitted.
    mutating func take(_ amount: Double, _ limit: RateLimit, nowMilliseconds: Int64) -> Int64? {
        fill(limit, nowMilliseconds)
        let needed = min(amount, 1)
        // Summing up many short intervals may fall short of a whole token by rounding.
        if tokens + 1e-9 >= needed {
            tokens -= amount
            return nil
        }
        return Int64(((needed - tokens) * 1_000 / limit.perSecond).rounded(.up))
    }

    private mutating func fill(_ limit: RateLimit, _ nowMilliseconds: Int64) {
        // A clock that steps back adds nothing.
        let elapsed = max(0, nowMilliseconds - updatedMilliseconds)
        updatedMilliseconds = max(updatedMilliseconds, nowMilliseconds)
        tokens = min(limit.burst, tokens + Double(elapsed) * limit.perSecond / 1_000)
    }
}

/// Stores a bounded number of values by key. The least recently used value is removed first.
struct RecentTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Entry: Sendable {
        var key: Key
        var value: Value
        /// Indexes of the next more recently and less recently used entries; -1 at the ends.
        var newer = -1
        var older = -1
    }

    private let capacity: Int
    private var indices: [Key: Int] = [:]
    private var entries: [Entry] = []
    private var newest = -1
    private var oldest = -1

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    var count: Int { entries.count }

    /// Calls `body` with the key's value, which becomes the most recently used one. Creates the value if there is none.
    mutating func with<R>(_ key: Key, new: @autoclosure () -> Value, _ body: (inout Value) -> R) -> R {
        let index = touch(key, new)
        return body(&entries[index].value)
    }

    private mutating func touch(_ key: Key, _ new: () -> Value) -> Int {
        if let index = indices[key] {
            guard index != newest else { return index }
            unlink(index)
            link(index)
            return index
        }
        var index = entries.count
        if index < capacity {
            entries.append(Entry(key: key, value: new()))
        } else {
            index = oldest
            unlink(index)
            indices[entries[index].key] = nil
            entries[index] = Entry(key: key, value: new())
        }
        indices[key] = index
        link(index)
        return index
    }

    private mutating func unlink(_ index: Int) {
        let (newer, older) = (entries[index].newer, entries[index].older)
        if newer >= 0 { entries[newer].older = older } else { newest = older }
        if older >= 0 { entries[older].newer = newer } else { oldest = newer }
    }

    private mutating func link(_ index: Int) {
        entries[index].newer = -1
        entries[index].older = newest
        if newest >= 0 { entries[newest].newer = index } else { oldest = index }
        newest = index
    }
}
