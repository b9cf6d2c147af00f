internal import ClientCore
public import Foundation
internal import Synchronization
internal import TLS
internal import WebSocketClient

/// The configuration of an app's databases: their server and the provider of the user's token. Replaces Firebase's app and
/// authentication objects. Safe to use from any thread.
///
/// ```swift
/// PathmirrorApp.configure(url: "http://127.0.0.1:9000")
/// let ref = Database.database().reference()
/// ```
public final class PathmirrorApp: Sendable {
    /// Returns the token of the signed-in user, or nil if no user is signed in. Called whenever a connection begins, and with
    /// `true` if the server has rejected the token or it has expired: the provider must then return a new token.
    public typealias TokenProvider = @Sendable (_ forcingRefresh: Bool) async throws -> String?

    /// The name that distinguishes the apps of a process.
    public let name: String
    /// The URL of the default database.
    public let url: String
    /// The folder for the files of databases with persistence. Only the user can read it.
    public let directory: URL
    let tokenProvider: TokenProvider?
    /// The transport for the connections of all the app's databases.
    let transport: any RealtimeTransport

    private init(
        name: String, url: String, directory: URL, transport: any RealtimeTransport, tokenProvider: TokenProvider?
    ) {
        self.name = name
        self.url = url
        self.directory = directory
        self.transport = transport
        self.tokenProvider = tokenProvider
    }

    static let defaultName = "default"
    /// Global state, like `DatabaseRegistry.shared`, because `Database.database()` has to find the app.
    private static let apps = Mutex<[String: PathmirrorApp]>([:])

    /// Configures an app. Call it before the first `Database.database()`.
    ///
    /// - Parameters:
    ///   - url: The server's URL, with the database's name unless it is `default`: `https://db.example.com?ns=shop`. An invalid URL
    ///     terminates the process.
    ///   - name: The app's name, if the process has several apps. An app can only be configured once.
    ///   - directory: The folder for databases with persistence; by default `pathmirror` in the user's folder for application data.
    ///   - certificateAuthorities: A PEM file of the certificate authorities to trust instead of the system's. An unreadable file
    ///     terminates the process.
    ///   - tokenProvider: Returns the token of the signed-in user. Without a provider, no user is signed in.
    @discardableResult
    public static func configure(
        url: String, name: String = "default", directory: URL? = nil, certificateAuthorities: URL? = nil,
        tokenProvider: TokenProvider? = nil
    ) -> PathmirrorApp {
        Misuse.check("PathmirrorApp.configure(url:)") { () throws(InvalidArgument) in
            _ = try DatabaseAddress.ofDatabase(url)
        }
        let app = PathmirrorApp(
            name: name, url: url, directory: directory ?? defaultDirectory,
            transport: makeTransport(certificateAuthorities), tokenProvider: tokenProvider)
        let isNew = apps.withLock { apps in
            if apps[name] != nil { return false }
            apps[name] = app
            return true
        }
        if !isNew { Misuse.stop("PathmirrorApp.configure(url:)", "the app \"\(name)\" is configured already") }
        return app
    }

    /// Returns the app that was configured without a name, or nil if there is none.
    public static func app() -> PathmirrorApp? { app(name: defaultName) }

    /// Returns the app with this name, or nil if it is not configured.
    public static func app(name: String) -> PathmirrorApp? { apps.withLock { $0[name] } }

    /// Reports that a user has signed in or out, or has a new token. The app's databases ask the token provider again
    /// and notify their servers.
    public func tokenDidChange() {
        for database in DatabaseRegistry.shared.all where database.app === self { database.tokenDidChange() }
    }

    /// Deletes the app. Its databases disconnect; their files remain for the next start.
    /// Listeners receive no more events, and loops over events end. Unanswered writes and transactions fail with
    /// `DatabaseError.Code.disconnected`, `waitFor(seq:timeout:)` with `unavailable`. Returns when the files are closed.
    public func delete() async {
        Self.apps.withLock { apps in
            if apps[name] === self { apps[name] = nil }
        }
        for database in DatabaseRegistry.shared.removeAll(of: self) { await database.close() }
    }

    private static func makeTransport(_ authorities: URL?) -> any RealtimeTransport {
        var settings = TransportSettings()
        if let authorities { settings.authorities = .file(authorities.path) }
        do throws(TLSError) {
            return try WebSocketTransport(settings)
        } catch {
            Misuse.stop("PathmirrorApp.configure(url:)", "the certificate authorities can't be used: \(error)")
        }
    }

    private static var defaultDirectory: URL {
        let folders = FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask)
        return (folders.first ?? FileManager.default.temporaryDirectory).appendingPathComponent("pathmirror")
    }
}

/// All databases of the process. Each address has one `Database`, because two would not see each other's writes.
final class DatabaseRegistry: Sendable {
    static let shared = DatabaseRegistry()

    private struct DatabaseKey: Hashable {
        let app: String
        let address: DatabaseAddress
    }

    private let databases = Mutex<[DatabaseKey: Database]>([:])

    var all: [Database] { databases.withLock { Array($0.values) } }

    func database(of app: PathmirrorApp, at address: DatabaseAddress) -> Database {
        databases.withLock { databases in
            let key = DatabaseKey(app: app.name, address: address)
            if let database = databases[key] { return database }
            let database = Database(app: app, address: address)
            databases[key] = database
            return database
        }
    }

    func removeAll(of app: PathmirrorApp) -> [Database] {
        databases.withLock { databases in
            let removed = databases.filter { $0.value.app === app }
            for key in removed.keys { databases[key] = nil }
            return Array(removed.values)
        }
    }
}
