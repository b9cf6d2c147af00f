public import Runtime
import Synchronization

/// A gateway's knowledge of the service accounts in the primary database. Thread-safe.
///
/// The thread that checks the heads in the database calls `look` about every second. While the database is unavailable,
/// the last accounts stay in use. If this gateway's user loses the right to read them, there are none.
public final class ServiceAccountList: Sendable {
    private struct State {
        /// Nil before the first look, and if this gateway's user may not read the accounts.
        var stored: ServiceAccounts?
        /// The stored accounts with their valid keys, as reported last.
        var reported: ServiceAccounts?
        var version = ""
        var isReadable = false
        /// The monotonic time of the last look, in milliseconds.
        var lookedAt: Int64?
        var onNews: (@Sendable (ServiceAccounts) -> Void)?
    }
    private let state = Mutex(State())
    /// How long the accounts count as current after a look.
    private static let currentMilliseconds: Int64 = 10_000

    /// Creates an empty list.
    public init() {}

    /// Sets a callback that receives the accounts with their valid keys: now, if they are known, and after each change.
    /// It runs on the caller's thread or on the one that calls `look`, and must not block.
    public func onNews(_ body: @escaping @Sendable (ServiceAccounts) -> Void) {
        let known = state.withLock { state in
            state.onNews = body
            return state.reported
        }
        if let known { body(known) }
    }

    /// Returns whether the accounts were read or confirmed within the last ten seconds.
    ///
    /// - Parameter now: monotonic milliseconds.
    public func isCurrent(now: Int64 = Clock.monotonicMilliseconds) -> Bool {
        state.withLock { state in
            state.reported != nil && state.lookedAt.map { now - $0 <= Self.currentMilliseconds } ?? false
        }
    }

    /// Reads the accounts if they have changed. Must not be called by two threads at a time.
    ///
    /// - Parameters:
    ///   - isNew: whether this is the first look on a connection. The database may then be another one, so everything is
    ///     read.
    ///   - now: milliseconds since 1970.
    public func look(
        _ connection: LogConnection, isNew: Bool, now: Int64 = Clock.unixMilliseconds
    ) throws(LogStoreError) {
        if isNew {
            let isReadable = try connection.mayReadServiceAccounts()
            state.withLock { $0.isReadable = isReadable }
        }
        guard state.withLock({ $0.isReadable }) else { return forget() }
        // Read before the accounts, so that the next look reads changes made in the meantime again.
        let version = try connection.serviceAccountsVersion()
        var stored = state.withLock { $0.stored }
        if isNew || stored == nil || state.withLock({ $0.version }) != version {
            stored = try connection.serviceAccounts()
        }
        guard let stored else { return }
        let valid = stored.valid(at: now)
        let news = state.withLock { state -> (@Sendable (ServiceAccounts) -> Void)? in
            state.stored = stored
            state.version = version
            state.lookedAt = Clock.monotonicMilliseconds
            defer { state.reported = valid }
            guard let reported = state.reported, reported.records == valid.records,
                reported.tokenKey.revealed() == valid.tokenKey.revealed()
            else { return state.onNews }
            return nil
        }
        news?(valid)
    }

    /// Reports that there are no accounts, because this gateway's user may no longer read them. A removed account would stay in
    /// use otherwise.
    private func forget() {
        let news = state.withLock { state -> (body: @Sendable (ServiceAccounts) -> Void, tokenKey: Secret<[UInt8]>)? in
            defer { (state.stored, state.reported) = (nil, nil) }
            guard let reported = state.reported, let body = state.onNews else { return nil }
            return (body, reported.tokenKey)
        }
        if let news { news.body(ServiceAccounts(tokenKey: news.tokenKey, records: [])) }
    }
}
