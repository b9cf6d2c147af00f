import HTTPServer
import Rules
public import Runtime
import Synchronization

/// Keeps callers to their rates. Shared by all loops; any thread. Its memory is bounded, whoever calls.
final class RateLimiter: Sendable {
    enum Kind: String, CaseIterable, Sendable {
        case address
        case identity
        case writeBytes = "write_bytes"
    }

    /// That a limit is exceeded, and when to try again.
    struct Refusal: Error, Sendable, Equatable {
        let kind: Kind
        let waitMilliseconds: Milliseconds

        /// For Retry-After.
        var seconds: Int { Int((waitMilliseconds + 999) / 1_000) }
    }

    /// A user of one namespace: others may have given the same name to somebody else.
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

    /// - Parameter now: milliseconds of a clock that never goes back.
    init(_ settings: RateLimiterSettings, now: @escaping @Sendable () -> Int64 = { Clock.monotonicMilliseconds }) {
        self.settings = settings
        self.now = now
        addresses = settings.perAddress.map { LimitBuckets($0, most: settings.maxTracked) }
        identities = settings.perIdentity.map { LimitBuckets($0, most: settings.maxTracked) }
        namespaces = settings.writeBytes.map { LimitBuckets($0, most: settings.maxTracked) }
        refusals = Kind.allCases.map { _ in Counter() }
    }

    /// One request, or message, from an address; nil where it may be served.
    func request(from address: IPAddress) -> Refusal? {
        guard let addresses, !isTrusted(address) else { return nil }
        return counted(.address, addresses.take(1, of: address.limitKey, now()))
    }

    /// One request, or message, of whoever a identity says.
    func request(by identity: Identity, in namespace: String) -> Refusal? {
        guard let identities, !identity.context.isAdmin, let name = identity.name else { return nil }
        return counted(.identity, identities.take(1, of: Caller(namespace: namespace, name: name), now()))
    }

    /// A write of so many bytes.
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

    /// Who is at the other end: the peer, or, where that is a trusted proxy, whom it speaks for. `forwarded` are the
    /// request's `X-Forwarded-For` lines, read only then.
    ///
    /// Every proxy adds whom it was called by at the end. So from there backwards the first that is no trusted proxy is
    /// the client: what stands before it anybody may have made up.
    func client(_ peer: IPAddress, forwarded: () -> [String]) -> IPAddress {
        guard isTrusted(peer) else { return peer }
        var client = peer
        for text in forwarded().flatMap({ $0.split(separator: ",", omittingEmptySubsequences: false) }).reversed() {
            // Behind what can't be read nothing is known.
            guard let address = ForwardedHeaders.address(text) else { return client }
            client = address
            if !isTrusted(address) { return client }
        }
        return client
    }
}

/// A steady rate, and how much may come at once after a pause.
public struct RateLimit: Sendable, Equatable {
    public let perSecond: Double
    public let burst: Double

    public init(perSecond: Double, burst: Double) {
        self.perSecond = perSecond
        self.burst = burst
    }

    /// Reads `N/s`, `N/m` or `N/h`, with `:BURST` behind it or not (then as much as N); nil for anything else. All
    /// numbers are whole and positive.
    public init?(_ text: String) { self.init(text, amount: Self.number) }

    /// The same of amounts in another form, such as sizes in bytes.
    ///
    /// - Parameter amount: nil for a text that is no amount.
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

/// How much callers may ask of this gateway; the gateways of a database count separately. Everything is unlimited by default.
public struct RateLimiterSettings: Sendable {
    /// Requests and realtime messages of one IPv4 address or one IPv6 /64 network, whoever they say they are.
    public var perAddress: RateLimit?
    /// Those of one user of a namespace. Administrators and callers without credentials are not limited by this.
    public var perIdentity: RateLimit?
    /// Bytes of the values written to one namespace, by anybody.
    public var writeBytes: RateLimit?
    /// Proxies whose `X-Forwarded-For` is believed. They are not limited themselves.
    public var trustedProxies: [IPNetwork] = []
    /// Addresses, and identities, that are remembered; of more than that the one not heard of for longest is forgotten.
    public var maxTracked = 65_536
    /// Refused messages in a row after which a realtime client is cut off: it does not listen.
    public var maxRefusedMessages = 100

    public init() {}
}

/// Buckets of one limit by caller, in parts with a lock each.
final class LimitBuckets<Key: Hashable & Sendable>: Sendable {
    private final class Part: Sendable {
        let buckets: Mutex<RecentTable<Key, TokenBucket>>

        init(capacity: Int) { buckets = Mutex(RecentTable(capacity: capacity)) }
    }

    private let limit: RateLimit
    private let parts: [Part]

    /// - Parameter most: the callers that are remembered.
    init(_ limit: RateLimit, most: Int) {
        self.limit = limit
        let count = most >= 1_024 ? 16 : 1
        parts = (0..<count).map { _ in Part(capacity: most / count) }
    }

    /// Takes from a caller's bucket, or says in how many milliseconds it may be asked again.
    func take(_ amount: Double, of key: Key, _ nowMilliseconds: Int64) -> Int64? {
        part(of: key).buckets.withLock { buckets in
            buckets.with(key, new: TokenBucket(limit, nowMilliseconds: nowMilliseconds)) { bucket in
                bucket.take(amount, limit, nowMilliseconds: nowMilliseconds)
            }
        }
    }

    private func part(of key: Key) -> Part { parts[Int(UInt(bitPattern: key.hashValue) % UInt(parts.count))] }
}

/// A bucket of tokens that fills steadily up to its limit's burst. No clock: callers tell it the time.
struct TokenBucket: Sendable {
    private var tokens: Double
    private var updatedMilliseconds: Int64

    /// A full one.
    init(_ limit: RateLimit, nowMilliseconds: Int64) {
        tokens = limit.burst
        updatedMilliseconds = nowMilliseconds
    }

    /// Takes `amount`, or says (having taken nothing) in how many milliseconds it may be asked for again.
    ///
    /// What is larger than what is there is let through all the same once there is a token at all; those that come
    /// later wait the longer. Otherwise nothing larger than the burst would ever get through.
    mutating func take(_ amount: Double, _ limit: RateLimit, nowMilliseconds: Int64) -> Int64? {
        fill(limit, nowMilliseconds)
        let needed = min(amount, 1)
        // The fill of many short times may be short of a whole by rounding.
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

/// Remembers a bounded number of values by key: the one not used for longest goes first.
struct RecentTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Entry: Sendable {
        var key: Key
        var value: Value
        /// Towards the more, and the less, recently used; -1 at the ends.
        var newer = -1
        var older = -1
    }

    private let capacity: Int
    private var places: [Key: Int] = [:]
    private var entries: [Entry] = []
    private var newest = -1
    private var oldest = -1

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    var count: Int { entries.count }

    /// Calls `body` with the key's value, which becomes the most recently used; a new one where there is none.
    mutating func with<R>(_ key: Key, new: @autoclosure () -> Value, _ body: (inout Value) -> R) -> R {
        let place = touch(key, new)
        return body(&entries[place].value)
    }

    private mutating func touch(_ key: Key, _ new: () -> Value) -> Int {
        if let place = places[key] {
            guard place != newest else { return place }
            unlink(place)
            link(place)
            return place
        }
        var place = entries.count
        if place < capacity {
            entries.append(Entry(key: key, value: new()))
        } else {
            place = oldest
            unlink(place)
            places[entries[place].key] = nil
            entries[place] = Entry(key: key, value: new())
        }
        places[key] = place
        link(place)
        return place
    }

    private mutating func unlink(_ place: Int) {
        let (newer, older) = (entries[place].newer, entries[place].older)
        if newer >= 0 { entries[newer].older = older } else { newest = older }
        if older >= 0 { entries[older].newer = newer } else { oldest = newer }
    }

    private mutating func link(_ place: Int) {
        entries[place].newer = -1
        entries[place].older = newest
        if newest >= 0 { entries[newest].newer = place } else { oldest = place }
        newest = place
    }
}
