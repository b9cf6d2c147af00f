import Crypto

/// How long keys are valid and how often they are fetched.
public struct KeySetSettings: Sendable {
    /// Bounds of the life that the issuer gives its keys by `Cache-Control`, and the default if the header is missing.
    public var minLifeMilliseconds: Int64 = 60_000
    public var maxLifeMilliseconds: Int64 = 24 * 3_600_000
    public var defaultLifeMilliseconds: Int64 = 3_600_000
    /// How long keys are used beyond their life while the issuer is unreachable.
    public var maxStaleMilliseconds: Int64 = 6 * 3_600_000
    /// Minimum time between two fetches that unknown keys cause.
    public var minRefetchMilliseconds: Int64 = 30_000
    /// The first pause after a failed fetch; it doubles up to `lastRetryMilliseconds`.
    public var firstRetryMilliseconds: Int64 = 1_000
    public var lastRetryMilliseconds: Int64 = 60_000

    public init() {}
}

/// An issuer's keys, and when to fetch them. Pure; callers pass the time in monotonic milliseconds.
struct KeySetMachine {
    enum Lookup: Sendable {
        /// The key, and the version of its set.
        case key(RSAPublicKey, version: Int)
        /// The issuer has no such key.
        case unknown
        /// The issuer's keys are unavailable.
        case unavailable
        /// The keys are being fetched.
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

    /// - Returns: the current knowledge about the key, and whether the caller has to begin a fetch now. Each fetch ends
    ///   with `fetched` or `failed`.
    mutating func look(for id: String, now: Int64) -> (lookup: Lookup, startsFetch: Bool) {
        if now < freshUntil {
            if let key = keys[id] { return (.key(key, version: version), false) }
            // The key may be new, or invented by the client. The latter must not cause frequent fetches.
            let isSoon = fetchedAt.map { now - $0 < settings.minRefetchMilliseconds } ?? false
            if isSoon, !isFetching { return (.unknown, false) }
            return fetch(now)
        }
        if now < staleUntil, let key = keys[id] {
            return (.key(key, version: version), begin(now))
        }
        return fetch(now)
    }

    /// Returns the result for callers that waited for a fetch, once it has ended.
    func settled(_ id: String, now: Int64) -> Lookup {
        if now < staleUntil, let key = keys[id] { return .key(key, version: version) }
        return failures > 0 ? .unavailable : .unknown
    }

    private mutating func fetch(_ now: Int64) -> (lookup: Lookup, startsFetch: Bool) {
        if isFetching { return (.wait, false) }
        return begin(now) ? (.wait, true) : (.unavailable, false)
    }

    /// Returns true if the caller has to begin a fetch.
    private mutating func begin(_ now: Int64) -> Bool {
        guard !isFetching, failures == 0 || now - failedAt >= pause else { return false }
        isFetching = true
        return true
    }

    private var pause: Int64 {
        min(settings.lastRetryMilliseconds, settings.firstRetryMilliseconds << Int64(min(failures - 1, 20)))
    }

    /// - Parameter life: the life that the issuer gave the keys, in milliseconds, or nil.
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
