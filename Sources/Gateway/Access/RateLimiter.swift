import HTTPServer
import Rules
import Runtime

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
