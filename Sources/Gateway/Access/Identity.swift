import Engine
import Feeds
import LogStore
import Rules
import Synchronization
import Tokens
import Tree
import Wire

/// A feed token's grant for one feed.
struct FeedGrant: Sendable, Hashable {
    let feed: FeedBinding
    /// The feed with this name that the grant is for.
    let access: FeedAccess
}

/// A caller's identity, and how long it is valid.
struct Identity: Sendable {
    /// The extent of an administrator's power.
    enum Power: Sendable {
        /// The rules judge the caller.
        case none
        /// Reads and writes data without rules.
        case data
        /// Also changes rules and settings of the request's namespace.
        case namespace
        /// Also does everything else that is reserved for operators, in all namespaces.
        case everything
    }

    /// The secret or key that an identity is based on. The identity ends when it is removed.
    enum Basis: Sendable {
        /// No secret: there is no credential, or the credential states its own end.
        case itself
        case administratorSecret(SecretID)
        case databaseSecret(SecretID, namespace: String)
        /// A key of a service account with these rights.
        case serviceAccount(key: String, ServiceAccountGrant)
    }

    /// The context for the rules.
    let context: AuthContext
    let power: Power
    /// The end of the identity in milliseconds since 1970; nil for no end.
    let expiresAt: Int64?
    let basis: Basis
    /// Whether an administrator acts as another user.
    let isOverride: Bool
    /// The one feed that the caller's token is for; nil for every other caller. For rules such a caller is anonymous.
    let feed: FeedGrant?

    init(
        _ context: AuthContext, power: Power = .none, expiresAt: Int64? = nil, basis: Basis = .itself,
        isOverride: Bool = false, feed: FeedGrant? = nil
    ) {
        self.context = context
        self.power = power
        self.expiresAt = expiresAt
        self.basis = basis
        self.isOverride = isOverride
        self.feed = feed
    }

    /// Returns the identity of a caller without a credential.
    static func anonymous(isLoopback: Bool) -> Identity {
        Identity(.unauthenticated).of(callerOnThisMachine: isLoopback)
    }

    /// Whether the caller is anonymous.
    var isAnonymous: Bool { !context.readsEverything && context.auth.isNull && !isOverride }

    /// Whether the caller may read and change the rules and settings of the namespace.
    var mayAdminister: Bool {
        switch power {
        case .none, .data: false
        case .namespace, .everything: true
        }
    }

    /// Whether the caller may read the rules of the namespace.
    var mayReadRules: Bool { mayAdminister || context.isViewer }

    /// Whether the caller may read the whole log of the namespace. Viewers do not see the authors of writes.
    var mayReadLog: Bool { mayAdminister || context.isViewer }

    /// Whether the caller may read and change settings that belong to no single namespace.
    var mayOperate: Bool { if case .everything = power { true } else { false } }

    /// Returns the feed with a name whose messages the caller may consume and acknowledge: any as an administrator, one
    /// with that feed's token. Returns nil if the caller has no access.
    func access(toFeed name: String, in namespace: String) -> FeedAccess? {
        if mayAdminister { return .any }
        guard let grant = feed, grant.feed.feed == name, grant.feed.namespace == namespace else { return nil }
        return grant.access
    }

    /// The user's id, if there is one.
    var uid: String? {
        if case .string(let uid) = context.auth.child(Key("uid")) { uid } else { nil }
    }

    /// A name without secrets, for logs and for limits by identity. Nil for callers without credentials.
    var name: String? {
        if context.isAdmin { return "admin" }
        if context.isViewer, case .serviceAccount(_, let grant) = basis { return "viewer:\(grant.name)" }
        if let feed { return "feed:\(feed.feed.feed)" }
        return uid.map { "uid:\($0)" }
    }

    /// Returns the origin that the log records for the caller's writes.
    func origin(via transport: Origin.Transport, address: String?) -> Origin {
        Origin(uid: uid, isAdmin: context.isAdmin, isOverride: isOverride, via: transport, address: address)
    }

    /// Returns the same identity with the caller's location.
    func of(callerOnThisMachine isLoopback: Bool) -> Identity {
        Identity(
            context.at(isElsewhere: !isLoopback), power: power, expiresAt: expiresAt, basis: basis,
            isOverride: isOverride, feed: feed)
    }

    /// Returns the identity of an administrator that wants the rules to judge it as another user.
    func acting(as auth: Node) -> Identity {
        Identity(AuthContext(auth: auth), expiresAt: expiresAt, basis: basis, isOverride: true)
    }
}

/// The reason why the gateway rejects a credential.
enum AuthFailure: Error, Sendable, Equatable {
    /// The credential can't be verified here. The reason is for the log, never for the caller.
    case unparsable(reason: String)
    case expired
    /// The issuer's keys are unavailable. The same credential may be accepted later.
    case unavailable
    /// The override is neither an object nor null.
    case badOverride
    /// The override needs an administrator.
    case overrideRefused
    /// A feed's token in a request that is not for that feed.
    case forFeedOnly

    var restError: RESTError {
        switch self {
        case .unparsable: .unparsableToken
        case .expired: RESTError(401, "Auth token is expired")
        case .unavailable: RESTError(503, "The auth token can't be checked at the moment. Try again later.")
        case .badOverride: RESTError(400, "auth_variable_override must be a JSON object or null")
        case .overrideRefused: RESTError(401, "auth_variable_override is for administrators only")
        case .forFeedOnly: RESTError(401, "This token is valid only for a feed")
        }
    }

    /// The status of the socket protocol's answer.
    var socketStatus: String {
        switch self {
        case .expired: "expired_token"
        case .unparsable, .badOverride, .overrideRefused, .forFeedOnly: "invalid_token"
        case .unavailable: "unavailable"
        }
    }

    /// The text of the socket protocol's answer.
    var socketText: String {
        switch self {
        case .expired: "Auth token is expired."
        default: restError.message
        }
    }
}

/// Identities of verified tokens, by the tokens' hashes. Bounded: when the newer of two halves is full, the older half
/// is dropped, so recently used identities stay.
final class IdentityCache: Sendable {
    private struct Entry {
        let identity: Identity
        /// The key set's version at the time of verification. An entry of another version is invalid, because the
        /// issuer may have withdrawn the key.
        let version: Int
    }

    private struct State {
        var new: [[UInt8]: Entry] = [:]
        var old: [[UInt8]: Entry] = [:]
    }
    private let state = Mutex(State())
    private let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    func identity(_ digest: [UInt8], version: Int, now: Int64) -> Identity? {
        state.withLock { state in
            if let entry = state.new[digest] { return Self.valid(entry, version, now) }
            guard let entry = state.old.removeValue(forKey: digest), let identity = Self.valid(entry, version, now)
            else {
                return nil
            }
            insert(entry, digest, &state)
            return identity
        }
    }

    func insert(_ identity: Identity, _ digest: [UInt8], version: Int) {
        state.withLock { insert(Entry(identity: identity, version: version), digest, &$0) }
    }

    private static func valid(_ entry: Entry, _ version: Int, _ now: Int64) -> Identity? {
        guard entry.version == version, let end = entry.identity.expiresAt, end > now else { return nil }
        return entry.identity
    }

    private func insert(_ entry: Entry, _ digest: [UInt8], _ state: inout State) {
        if state.new.count >= capacity / 2 {
            state.old = state.new
            state.new.removeAll(keepingCapacity: true)
        }
        state.new[digest] = entry
    }
}

/// Determines when identities have to be checked again: when the first one ends, or after secrets were replaced. There
/// is one for each loop, so that open connections cost nothing until an identity ends.
struct IdentityWatch {
    /// Milliseconds since 1970.
    private var earliestEnd = Int64.max
    private var generation = 0

    /// Includes an identity in the watch.
    ///
    /// - Parameter isValid: whether the identity is still valid. It may have become invalid while its request waited, after the
    ///   last check of all identities; the next check is then due at once.
    mutating func add(_ identity: Identity, isValid: Bool) {
        if let end = identity.expiresAt { earliestEnd = min(earliestEnd, end) }
        if !isValid { earliestEnd = .min }
    }

    /// Returns true when all identities have to be checked. The caller then adds those that are still valid again.
    mutating func isDue(generation: Int, now: Int64) -> Bool {
        guard now >= earliestEnd || generation != self.generation else { return false }
        earliestEnd = .max
        self.generation = generation
        return true
    }
}
