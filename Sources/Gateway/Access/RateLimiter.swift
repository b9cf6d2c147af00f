import HTTPServer
import Rules
import Runtime
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
    /// What callers have used at other gateways, as far as those have told.
    let usedElsewhere = Counter()

    /// - Parameter now: milliseconds of a clock that never goes back.
    init(_ settings: RateLimiterSettings, now: @escaping @Sendable () -> Int64 = { Clock.monotonicMilliseconds }) {
        self.settings = settings
        self.now = now
        let isShared = settings.shareMilliseconds > 0
        func limit<Key>(
            _ limit: RateLimit?, name: @escaping @Sendable (Key) -> LimitedCaller
        ) -> LimitBuckets<Key>? {
            limit.map { LimitBuckets($0, most: settings.maxTracked, name: isShared ? name : nil) }
        }
        addresses = limit(settings.perAddress) { LimitedCaller(.address, "\($0)") }
        identities = limit(settings.perIdentity) { LimitedCaller(.identity, "\($0.namespace) \($0.name)") }
        let writes = settings.writeBytesPerMinute.map { RateLimit(perSecond: Double($0) / 60, burst: Double($0)) }
        namespaces = limit(writes) { LimitedCaller(.writeBytes, $0) }
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

    /// A write of so many bytes. What other gateways report refuses no administrator.
    func write(_ byteCount: Int, to namespace: String, byAdministrator isAdmin: Bool = false) -> Refusal? {
        guard let namespaces else { return nil }
        let wait = namespaces.take(Double(max(1, byteCount)), of: namespace, ignoresOthers: isAdmin, now())
        return counted(.writeBytes, wait)
    }

    /// Whether there is any limit.
    var isLimiting: Bool { addresses != nil || identities != nil || namespaces != nil }

    /// How often each limit was exceeded.
    var counts: [(kind: Kind, count: Int)] { zip(Kind.allCases, refusals).map { ($0, $1.current) } }

    // MARK: Other gateways

    /// The most notices at one time; callers that don't fit are told of the next time.
    private static let mostNotices = 8

    /// What the other gateways of the database are to be told: what callers have used here since the last call.
    func takeNotices() -> [UseNotice] {
        var left = UseNotice.most * Self.mostNotices
        func notices(_ kind: Kind, _ amounts: [UseNotice.Amount]?) -> [UseNotice] {
            guard let amounts else { return [] }
            left -= amounts.count
            return stride(from: 0, to: amounts.count, by: UseNotice.most).map { start in
                UseNotice(kind, Array(amounts[start..<min(start + UseNotice.most, amounts.count)]))
            }
        }
        return notices(.writeBytes, namespaces?.takeUntold(most: left))
            + notices(.identity, identities?.takeUntold(most: left))
            + notices(.address, addresses?.takeUntold(most: left))
    }

    /// Another gateway has let callers have so much: it counts here, too.
    func heard(_ notice: UseNotice) {
        for used in notice.amounts {
            usedElsewhere.add(used.amount)
            switch notice.kind {
            case .writeBytes: namespaces?.used(used, now())
            case .identity: identities?.used(used, now())
            case .address: addresses?.used(used, now())
            }
        }
    }

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
