internal import ClientCore
public import Dispatch
internal import Foundation
internal import Runtime
internal import Synchronization
internal import Tree

/// A database that is always there: what it has is read and written at once, and it follows its server when it can. Safe to
/// use from any thread.
///
/// Its settings are made before the first call that reads or writes; later, setting them ends the process.
public final class Database: Sendable {
    /// The app that it belongs to.
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

    // MARK: Getting one

    /// The default database: that of the URL that `PathmirrorApp.configure(url:)` was given. It ends the process where that
    /// was not called.
    public static func database() -> Database { database(app: defaultApp("Database.database()")) }

    /// The database at a URL, with the default app's token provider.
    public static func database(url: String) -> Database {
        database(app: defaultApp("Database.database(url:)"), url: url)
    }

    /// The default database of an app.
    public static func database(app: PathmirrorApp) -> Database { database(app: app, url: app.url) }

    /// The database at a URL, with the app's token provider.
    public static func database(app: PathmirrorApp, url: String) -> Database {
        let address = Misuse.check("Database.database(app:url:)") { () throws(InvalidArgument) in
            try DatabaseAddress.ofDatabase(url)
        }
        return Databases.shared.database(of: app, at: address)
    }

    private static func defaultApp(_ function: String) -> PathmirrorApp {
        guard let app = PathmirrorApp.app() else {
            Misuse.stop(function, "call PathmirrorApp.configure(url:) first, where the app starts")
        }
        return app
    }

    // MARK: References

    /// The reference to the root.
    public func reference() -> DatabaseReference { DatabaseReference(owner: self, path: .root) }

    /// The reference to a place, by its keys with slashes between them.
    public func reference(withPath path: String) -> DatabaseReference {
        let path = Misuse.check("reference(withPath:)") { () throws(InvalidArgument) in try PathText.path(path)
        }
        return DatabaseReference(owner: self, path: path)
    }

    /// The reference to a place, by its URL, which must be of this database.
    public func reference(fromURL databaseUrl: String) -> DatabaseReference {
        let path = Misuse.check("reference(fromURL:)") { () throws(InvalidArgument) in
            let (address, path) = try DatabaseAddress.parse(databaseUrl)
            let own = self.address
            let isOwn =
                address.host == own.host && address.port == own.port
                && (address.namespace == own.namespace || !DatabaseAddress.namesDatabase(databaseUrl))
            guard isOwn else {
                throw InvalidArgument(
                    "\"\(DatabaseAddress.shown(databaseUrl))\" is not of this database, \(own.url(of: .root))")
            }
            return path
        }
        return DatabaseReference(owner: self, path: path)
    }

    // MARK: Connection

    /// Takes back all writes that the server has not answered, with events; their completions are told
    /// `DatabaseError.Code.writeCanceled`.
    public func purgeOutstandingWrites() { repository.perform { $0.purgeWrites() } }

    /// Ends the connection, until `goOnline()`. Reading and writing go on with what the client has.
    public func goOffline() { setOffline(true) }

    /// Connects again, at once.
    public func goOnline() { setOffline(false) }

    private func setOffline(_ isOffline: Bool) {
        let repository = state.withLock { state in
            state.isOffline = isOffline
            return state.repository
        }
        repository?.perform { $0.setOffline(isOffline) }
    }

    /// Uses another server, without TLS: a gateway on this machine. The database's name stays.
    public func useEmulator(withHost host: String, port: Int) {
        change("useEmulator(withHost:port:)") { state in
            guard let port = UInt16(exactly: port), port > 0 else {
                Misuse.stop("useEmulator(withHost:port:)", "there is no port \(port)")
            }
            let host = DatabaseAddress.plain(host)
            guard DatabaseAddress.isHost(host) else {
                Misuse.stop("useEmulator(withHost:port:)", "\"\(host)\" is no host: a name or an IP address is")
            }
            state.address.host = host
            state.address.port = port
            state.address.isSecure = false
        }
    }

    // MARK: Settings

    /// Whether the server's data and unanswered writes are kept on disk. False at first.
    public var isPersistenceEnabled: Bool {
        get { state.withLock { $0.settings.isPersistenceEnabled } }
        set { change("isPersistenceEnabled") { $0.settings.isPersistenceEnabled = newValue } }
    }

    /// How many bytes of the server's data stay on disk without anybody listening to them: from 1 MB to 100 MB, 10 MB at
    /// first. Unanswered writes are always kept.
    public var persistenceCacheSizeBytes: UInt {
        get { state.withLock { $0.settings.cacheBytes } }
        set {
            if !(1 << 20...100 << 20).contains(newValue) {
                Misuse.stop("persistenceCacheSizeBytes", "\(newValue) is not between \(1 << 20) and \(100 << 20)")
            }
            change("persistenceCacheSizeBytes") { $0.settings.cacheBytes = newValue }
        }
    }

    /// Where all blocks and completions run, one after the other: the main queue at first. It must be a serial queue. With
    /// another one than the main queue, blocks in code of the main actor are to be written `{ @Sendable snapshot in … }`, as they
    /// do not run there.
    public var callbackQueue: DispatchQueue {
        get { state.withLock { $0.settings.callbackQueue } }
        set { change("callbackQueue") { $0.settings.callbackQueue = newValue } }
    }

    /// Whether databases tell what they do, on standard error.
    public static func setLoggingEnabled(_ enabled: Bool) { ClientLog.isEnabled.store(enabled, ordering: .relaxed) }

    /// The version of this library.
    public static func sdkVersion() -> String { "0.1.0" }

    // MARK: For the module

    var address: DatabaseAddress { state.withLock { $0.address } }

    /// What runs the database, which the first call starts.
    var repository: Repository {
        state.withLock { state in
            if let repository = state.repository { return repository }
            let repository = Repository(
                address: state.address, settings: state.settings, app: app, isOffline: state.isOffline)
            state.repository = repository
            return repository
        }
    }

    /// Changes the settings in a way that is not public: for tests.
    func configure(_ body: (inout DatabaseSettings) -> Void) { change("configure") { body(&$0.settings) } }

    private func change(_ name: String, _ body: (inout State) -> Void) {
        state.withLock { state in
            if state.repository != nil { Misuse.stop(name, "it must be set before the database is first used") }
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
    /// Waits until this client has been told everything that the server's log has up to an entry: of a write elsewhere whose
    /// seq came here by other means (`X-Pathmirror-Seq` of REST, `WriteReceipt.seq`, `DataSnapshot.seq`).
    ///
    /// When it returns, every listener that was there when it was called, and whose data comes from the server, has been
    /// called back for all changes up to the entry, and `getData()` answers as of it or a later one. While there is no
    /// connection it waits. A listener that the server has refused has nothing to be told.
    ///
    /// - Parameters:
    ///   - seq: of the same database; of one that was restored from an older backup since, it may mean another entry.
    ///   - timeout: nil to wait for ever. Cancelling the task ends the wait, too.
    /// - Throws: `DatabaseError` with the code `timedOut`; `permissionDenied` where the client reads nothing at all, as the log
    ///   is nobody's business then (listen to something, or read it, first); `unsupported` where the server is no Pathmirror
    ///   gateway; `unavailable` when the app is deleted. `CancellationError`.
    public func waitFor(seq: Int, timeout: Duration? = nil) async throws {
        let milliseconds = timeout.map { duration -> Int64 in
            let (seconds, attoseconds) = duration.components
            // What is longer than a year is for ever.
            return min(max(0, seconds), 31_536_000) * 1_000 + max(0, attoseconds) / 1_000_000_000_000_000
        }
        let repository = repository
        let id = RequestID(rawValue: UInt64(Listener.nextHandle()) | 1 << 63)
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

/// How a database behaves; fixed when it is first used.
struct DatabaseSettings: Sendable {
    var isPersistenceEnabled = false
    var cacheBytes: UInt = 10 << 20
    var callbackQueue: DispatchQueue = .main
    /// How long `getData` waits for a connection that is being made, in milliseconds.
    var getWait: Int64 = 3_000
    /// How long writes wait for a token that the app was asked for, in milliseconds.
    var tokenWait: Int64 = 30_000
    /// How long after the last turn what was put off is written to disk, in milliseconds.
    var flushDelay: Int64 = 1_000
    /// From how many leaves on a listen is asked to go on behind what is known, instead of comparing hashes.
    var resumptionRows = 500
    /// Nil for the platform's own.
    var transport: (any RealtimeTransport)?
    /// Changes to how connections behave, for tests.
    var connection: (@Sendable (inout ConnectionSettings) -> Void)?
}
