import Engine
import Feeds
import Rules
import Synchronization
import Tokens
import Tree
import Wire

/// The one feed that a caller's token is for.
struct FeedGrant: Sendable, Hashable {
    let feed: FeedBinding
    /// Which feed of the name.
    let access: FeedAccess
}

/// Who a caller was found to be, and for how long that holds.
struct Identity: Sendable {
    /// How far an administrator's power goes.
    enum Power: Sendable {
        /// Whoever rules judge.
        case none
        /// Reads and writes data without rules.
        case data
        /// And changes rules and settings, in the namespace that it was asked about.
        case namespace
        /// And everything else that is for operators, in all namespaces.
        case everything
    }

    /// What a identity rests on; it ends when that is taken away.
    enum Basis: Sendable {
        /// Nothing that could be taken away: no credential, or one that says itself how long it holds.
        case itself
        case administratorSecret(SecretID)
        case databaseSecret(SecretID, namespace: String)
    }

    /// What rules are asked with.
    let context: AuthContext
    let power: Power
    /// Milliseconds since 1970 from which on it holds no more; nil for no end.
    let expiresAt: Int64?
    let basis: Basis
    /// An administrator who acts as somebody else.
    let isOverride: Bool
    /// The one feed that the caller's token is for; nil for everybody else. To rules such a caller is nobody.
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

    /// A caller without a credential.
    static func anonymous(isLoopback: Bool) -> Identity {
        Identity(.unauthenticated).of(callerOnThisMachine: isLoopback)
    }

    /// Whether nobody has logged in.
    var isNobody: Bool { !context.isAdmin && context.auth.isNull && !isOverride }

    /// Whether rules and settings of the namespace may be read and changed.
    var mayAdminister: Bool {
        switch power {
        case .none, .data: false
        case .namespace, .everything: true
        }
    }

    /// Whether what belongs to no one namespace may be read and changed.
    var mayOperate: Bool { if case .everything = power { true } else { false } }

    /// Which feed of a name the caller may take messages of, and acknowledge: any as an administrator, one with its token. Nil for none.
    func access(toFeed name: String, in namespace: String) -> FeedAccess? {
        if mayAdminister { return .any }
        guard let grant = feed, grant.feed.feed == name, grant.feed.namespace == namespace else { return nil }
        return grant.access
    }

    /// The user's id, if there is one.
    var uid: String? {
        if case .string(let uid) = context.auth.child(Key("uid")) { uid } else { nil }
    }

    /// Who it is, for logs and for counting by identity: nothing in it is secret. Nil for callers without credentials.
    var name: String? {
        if context.isAdmin { return "admin" }
        if let feed { return "feed:\(feed.feed.feed)" }
        return uid.map { "uid:\($0)" }
    }

    /// What the log says of its writes.
    func origin(via transport: Origin.Transport, address: String?) -> Origin {
        Origin(uid: uid, isAdmin: context.isAdmin, isOverride: isOverride, via: transport, address: address)
    }

    /// The same, knowing where the caller is.
    func of(callerOnThisMachine isLoopback: Bool) -> Identity {
        let context = AuthContext(auth: context.auth, isAdmin: context.isAdmin, isElsewhere: !isLoopback)
        return Identity(
            context, power: power, expiresAt: expiresAt, basis: basis, isOverride: isOverride, feed: feed)
    }

    /// The identity of an administrator who wants to be judged like somebody else.
    func acting(as auth: Node) -> Identity {
        Identity(AuthContext(auth: auth), expiresAt: expiresAt, basis: basis, isOverride: true)
    }
}

/// Why a credential is not accepted.
enum AuthFailure: Error, Sendable, Equatable {
    /// It means nothing here. The reason is for the log, never for the caller.
    case unparsable(reason: String)
    case expired
    /// The issuer's keys can't be had at the moment: the same credential may be good a little later.
    case unavailable
    /// An override that is none.
    case badOverride
    /// Only administrators may act as somebody else.
    case overrideRefused
    /// A feed's token, where something else is asked for than that feed.
    case forFeedOnly

    var restError: RESTError {
        switch self {
        case .unparsable: .unparsableToken
        case .expired: RESTError(401, "Auth token is expired")
        case .unavailable: RESTError(503, "The auth token can't be checked at the moment. Try again later.")
        case .badOverride: RESTError(400, "auth_variable_override must be a JSON object or null")
        case .overrideRefused: RESTError(401, "auth_variable_override is for administrators only")
        case .forFeedOnly: RESTError(401, "This token is for a feed, and for nothing else")
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

/// Sessions of tokens that were verified, by the tokens' hashes. Bounded: of two halves the older goes when the newer is
/// full, so what is used stays.
final class IdentityCache: Sendable {
    private struct Entry {
        let identity: Identity
        /// The key set's version when it was verified; keys that the issuer withdrew verify nothing more.
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

/// Says when identities have to be looked at again: when the first of them ends, or when secrets were replaced. One for each
/// loop, so that open connections cost nothing while nothing ends.
struct IdentityWatch {
    /// Milliseconds since 1970.
    private var earliestEnd = Int64.max
    private var generation = 0

    /// Counts a identity in.
    mutating func add(_ identity: Identity) {
        if let end = identity.expiresAt { earliestEnd = min(earliestEnd, end) }
    }

    /// True when all identities are to be looked at; those that still hold are then to be added again.
    mutating func isDue(generation: Int, now: Int64) -> Bool {
        guard now >= earliestEnd || generation != self.generation else { return false }
        earliestEnd = .max
        self.generation = generation
        return true
    }
}
