import Crypto

/// How long keys are believed and how often they are asked for.
public struct KeySetSettings: Sendable {
    /// Bounds on the life that the issuer gives its keys by Cache-Control, and that life where it says nothing.
    public var minLifeMilliseconds: Int64 = 60_000
    public var maxLifeMilliseconds: Int64 = 24 * 3_600_000
    public var defaultLifeMilliseconds: Int64 = 3_600_000
    /// How long keys are used beyond their life while the issuer can't be reached.
    public var maxStaleMilliseconds: Int64 = 6 * 3_600_000
    /// The least time between two fetches on account of unknown keys.
    public var minRefetchMilliseconds: Int64 = 30_000
    /// The first pause after a failed fetch; it doubles up to the last.
    public var firstRetryMilliseconds: Int64 = 1_000
    public var lastRetryMilliseconds: Int64 = 60_000

    public init() {}
}

/// An issuer's keys and when to fetch them: pure, with times from outside (monotonic milliseconds).
struct KeySetMachine {
    enum Lookup: Sendable {
        /// And the version of the set that it is in.
        case key(RSAPublicKey, version: Int)
        /// The issuer has no such key.
        case unknown
        /// The issuer's keys can't be had at the moment.
        case unavailable
        /// Keys are on their way.
        case wait
    }

    private let settings: KeySetSettings
    private var keys: [String: RSAPublicKey] = [:]
    private(set) var version = 0
    private(set) var isFetching = false
    private var fetchedAt: Int64?
    private var freshUntil: Int64 = .min
    private var staleUntil: Int64 = .min
    private var failures = 0
    private var failedAt: Int64 = .min

    init(_ settings: KeySetSettings) { self.settings = settings }

    /// - Returns: what is known, and whether to begin a fetch now, which then ends in `fetched` or `failed`.
    mutating func look(for id: String, now: Int64) -> (lookup: Lookup, startsFetch: Bool) {
        if now < freshUntil {
            if let key = keys[id] { return (.key(key, version: version), false) }
            // Perhaps a new key; or made up, so not too often.
            let isSoon = fetchedAt.map { now - $0 < settings.minRefetchMilliseconds } ?? false
            if isSoon, !isFetching { return (.unknown, false) }
            return fetch(now)
        }
        if now < staleUntil, let key = keys[id] {
            return (.key(key, version: version), begin(now))
        }
        return fetch(now)
    }

    /// What those who have waited for a fetch are told when it is over.
    func settled(_ id: String, now: Int64) -> Lookup {
        if now < staleUntil, let key = keys[id] { return .key(key, version: version) }
        return failures > 0 ? .unavailable : .unknown
    }

    private mutating func fetch(_ now: Int64) -> (lookup: Lookup, startsFetch: Bool) {
        if isFetching { return (.wait, false) }
        return begin(now) ? (.wait, true) : (.unavailable, false)
    }

    /// True when a fetch is to begin.
    private mutating func begin(_ now: Int64) -> Bool {
        guard !isFetching, failures == 0 || now - failedAt >= pause else { return false }
        isFetching = true
        return true
    }

    private var pause: Int64 {
        min(settings.lastRetryMilliseconds, settings.firstRetryMilliseconds << Int64(min(failures - 1, 20)))
    }

    /// - Parameter life: milliseconds that the issuer gave the keys, if it did.
    mutating func fetched(_ keys: [String: RSAPublicKey], life: Int64?, now: Int64) {
        isFetching = false
        failures = 0
        fetchedAt = now
        let life = min(
            max(life ?? settings.defaultLifeMilliseconds, settings.minLifeMilliseconds), settings.maxLifeMilliseconds)
        freshUntil = now + life
        staleUntil = freshUntil + settings.maxStaleMilliseconds
        self.keys = keys
        version += 1
    }

    mutating func failed(now: Int64) {
        isFetching = false
        failures += 1
        failedAt = now
    }
}
