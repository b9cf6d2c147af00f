internal import ClientCore
public import Dispatch
internal import Foundation
internal import Runtime
internal import Synchronization
internal import Tree

/// A database that is always available: the app reads and writes a local copy, which follows the server whenever there is a
/// connection. Safe to use from any thread.
///
/// Settings must be made before the first call that reads or writes. Changing them later terminates the process.
public final class Database: Sendable {
    /// The app to which the database belongs.
    public let app: PathmirrorApp?

    private struct State {
        var address: DatabaseAddress
        var settings = DatabaseSettings()
        var repository: Repository?
        var isOffline = false
        var pushIDs = PushIDGenerator()
    }

    private let state: Mutex<State>

    init(app: PathmirrorApp, address: DatabaseAddress) {
        self.app = app
        state = Mutex(State(address: address))
    }

    // MARK: Creating databases

    /// Returns the default database, whose URL was passed to `PathmirrorApp.configure(url:)`. Terminates the process if that
    /// function has not been called.
    public static func database() -> Database { database(app: defaultApp("Database.database()")) }

    /// Returns the database at a URL, with the default app's token provider.
    public static func database(url: String) -> Database {
        database(app: defaultApp("Database.database(url:)"), url: url)
    }

    /// Returns the default database of an app.
    public static func database(app: PathmirrorApp) -> Database { database(app: app, url: app.url) }

    /// Returns the database at a URL, with the app's token provider.
    public static func database(app: PathmirrorApp, url: String) -> Database {
        let address = Misuse.check("Database.database(app:url:)") { () throws(InvalidArgument) in
            try DatabaseAddress.ofDatabase(url)
        }
        return DatabaseRegistry.shared.database(of: app, at: address)
    }

    private static func defaultApp(_ function: String) -> PathmirrorApp {
        guard let app = PathmirrorApp.app() else {
            Misuse.stop(function, "call PathmirrorApp.configure(url:) first, at the start of the app")
        }
        return app
    }

    // MARK: References

    /// Returns the reference to the root.
    public func reference() -> DatabaseReference { DatabaseReference(owner: self, path: .root) }

    /// Returns the reference to a path, whose keys are separated by slashes.
    public func reference(withPath path: String) -> DatabaseReference {
        let path = Misuse.check("reference(withPath:)") { () throws(InvalidArgument) in try PathText.path(path)
        }
        return DatabaseReference(owner: self, path: path)
    }

    /// Returns the reference to the path in a URL, which must belong to this database.
    public func reference(fromURL databaseUrl: String) -> DatabaseReference {
        let path = Misuse.check("reference(fromURL:)") { () throws(InvalidArgument) in
            let (address, path) = try DatabaseAddress.parse(databaseUrl)
            let own = self.address
            let isOwn =
                address.host == own.host && address.port == own.port
                && (address.namespace == own.namespace || !DatabaseAddress.namesDatabase(databaseUrl))
            guard isOwn else {
                throw InvalidArgument(
                    "\"\(DatabaseAddress.shown(databaseUrl))\" is not a URL of this database, \(own.url(of: .root))")
            }
            return path
        }
        return DatabaseReference(owner: self, path: path)
    }

    // MARK: Connection

    /// Rolls back all unanswered writes, with events. Their completions receive `DatabaseError.Code.writeCanceled`.
    public func purgeOutstandingWrites() { repository.perform { $0.purgeWrites() } }

    /// Closes the connection until `goOnline()`. Reads and writes continue with the local data.
    public func goOffline() { setOffline(true) }

    /// Reconnects at once.
    public func goOnline() { setOffline(false) }

    private func setOffline(_ isOffline: Bool) {
        let repository = state.withLock { state in
            state.isOffline = isOffline
            return state.repository
        }
        repository?.perform { $0.setOffline(isOffline) }
    }

    /// Uses another server without TLS, such as a gateway on this machine. The database's name does not change.
    public func useEmulator(withHost host: String, port: Int) {
        change("useEmulator(withHost:port:)") { state in
            guard let port = UInt16(exactly: port), port > 0 else {
                Misuse.stop("useEmulator(withHost:port:)", "\(port) is not a port")
            }
            let host = DatabaseAddress.plain(host)
            guard DatabaseAddress.isHost(host) else {
                Misuse.stop("useEmulator(withHost:port:)", "\"\(host)\" is not a host: give a name or an IP address")
            }
            state.address.host = host
            state.address.port = port
            state.address.isSecure = false
        }
    }

    // MARK: Settings

    /// Whether the server's data and unanswered writes are stored on disk. False by default.
    public var isPersistenceEnabled: Bool {
        get { state.withLock { $0.settings.isPersistenceEnabled } }
        set { change("isPersistenceEnabled") { $0.settings.isPersistenceEnabled = newValue } }
    }

    /// The maximum number of bytes of server data on disk that no listener uses: from 1 MB to 100 MB, by default 10 MB. Unanswered
    /// writes are always stored.
    public var persistenceCacheSizeBytes: UInt {
        get { state.withLock { $0.settings.cacheBytes } }
        set {
            if !(1 << 20...100 << 20).contains(newValue) {
                Misuse.stop("persistenceCacheSizeBytes", "\(newValue) is not between \(1 << 20) and \(100 << 20)")
            }
            change("persistenceCacheSizeBytes") { $0.settings.cacheBytes = newValue }
        }
    }

    /// The queue on which all blocks and completions run, one after the other. The main queue by default; it must be a serial
    /// queue. With any other queue, blocks in code of the main actor must be written `{ @Sendable snapshot in … }`, because they
    /// do not run on that actor.
    public var callbackQueue: DispatchQueue {
        get { state.withLock { $0.settings.callbackQueue } }
        set { change("callbackQueue") { $0.settings.callbackQueue = newValue } }
    }

    /// Sets whether databases log their activity to standard error.
    public static func setLoggingEnabled(_ enabled: Bool) { ClientLog.isEnabled.store(enabled, ordering: .relaxed) }

    /// The version of this library.
    public static func sdkVersion() -> String { "0.2.0-dev" }

    // MARK: Internal

    var address: DatabaseAddress { state.withLock { $0.address } }

    /// The running database, which is started by the first access.
    var repository: Repository {
        state.withLock { state in
            if let repository = state.repository { return repository }
            let repository = Repository(
                address: state.address, settings: state.settings, app: app, isOffline: state.isOffline)
            state.repository = repository
            return repository
        }
    }

    /// Changes settings that are not public. For tests.
    func configure(_ body: (inout DatabaseSettings) -> Void) { change("configure") { body(&$0.settings) } }

    private func change(_ name: String, _ body: (inout State) -> Void) {
        state.withLock { state in
            if state.repository != nil { Misuse.stop(name, "set this before the database is first used") }
            body(&state)
        }
    }

    func nextPushID() -> String {
        let offset = state.withLock { $0.repository }?.serverTimeOffset ?? 0
        return state.withLock { $0.pushIDs.next(milliseconds: Clock.unixMilliseconds + offset) }
    }

    func tokenDidChange() {
        let repository = state.withLock { $0.repository }
        repository?.perform { $0.askForToken(isForced: false) }
    }

    func close() async {
        let repository = state.withLock { $0.repository }
        await repository?.close()
    }
}

extension Database {
    /// Waits until this client has received everything in the server's log up to an entry. Use it for a write by another client
    /// whose seq arrived by other means (`X-Pathmirror-Seq` in REST, `WriteReceipt.seq`, `DataSnapshot.seq`).
    ///
    /// When it returns, every listener that existed at the time of the call and receives its data from the server has been called
    /// for all changes up to the entry, and `getData()` returns data at that entry or a later one. Waits while there is no
    /// connection. Does not wait for listeners that the server has refused.
    ///
    /// - Parameters:
    ///   - seq: A seq of the same database. After a restore from an older backup, it may mean another entry.
    ///   - timeout: Nil to wait without limit. Cancelling the task ends the wait, too.
    /// - Throws: `DatabaseError` with the code `timedOut`; `permissionDenied` if the client reads no data at all, because it then
    ///   has no right to know about the log (listen to or read some data first); `unsupported` if the server is not a Pathmirror
    ///   gateway; `unavailable` when the app is deleted. `CancellationError`.
    public func waitFor(seq: Int, timeout: Duration? = nil) async throws {
        let milliseconds = timeout.map { duration -> Int64 in
            let (seconds, attoseconds) = duration.components
            // A timeout of more than a year is cut to one year.
            return min(max(0, seconds), 31_536_000) * 1_000 + max(0, attoseconds) / 1_000_000_000_000_000
        }
        let repository = repository
        let id = RequestID(rawValue: UInt64(EventObserver.nextHandle()) | 1 << 63)
        try await withTaskCancellationHandler {
            try await withUnsafeThrowingContinuation { (continuation: UnsafeContinuation<Void, any Error>) in
                let wait = SeqWait(Int64(seq), continuation)
                repository.wait(id, wait, milliseconds: milliseconds)
                if Task.isCancelled { repository.perform { $0.cancelWait(id) } }
            }
        } onCancel: {
            repository.perform { $0.cancelWait(id) }
        }
    }
}

/// The settings of a database, which are fixed when it is first used.
struct DatabaseSettings: Sendable {
    var isPersistenceEnabled = false
    var cacheBytes: UInt = 10 << 20
    var callbackQueue: DispatchQueue = .main
    /// How long `getData` waits for a connection to be established, in milliseconds.
    var getWait: Int64 = 3_000
    /// How long writes wait for a token that the app was asked for, in milliseconds.
    var tokenWait: Int64 = 30_000
    /// The delay before postponed changes are written to disk, in milliseconds, counted from the first of them.
    var flushDelay: Int64 = 1_000
    /// The minimum number of leaves for which a listen resumes from the known log position instead of comparing hashes.
    var resumptionRows = 500
    /// Nil for the app's transport.
    var transport: (any RealtimeTransport)?
    /// Changes the connection settings, for tests.
    var connection: (@Sendable (inout ConnectionSettings) -> Void)?
}
