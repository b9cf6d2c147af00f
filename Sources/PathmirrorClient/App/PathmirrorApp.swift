internal import ClientCore
public import Foundation
internal import Synchronization
internal import TLS
internal import WebSocketClient

/// What an app says once about its databases: where they are, and who is signed in. Takes the place of the vendor's app
/// and sign-in objects. Safe to use from any thread.
///
/// ```swift
/// PathmirrorApp.configure(url: "http://127.0.0.1:9000")
/// let ref = Database.database().reference()
/// ```
public final class PathmirrorApp: Sendable {
    /// Gives the token of whoever is signed in, and nil while nobody is. It is asked whenever a connection begins, and with
    /// `true` when the server has not accepted the token or it has ended: then the same one is of no use.
    public typealias TokenProvider = @Sendable (_ forcingRefresh: Bool) async throws -> String?

    /// What the app is called where a process has several.
    public let name: String
    /// The URL of its default database.
    public let url: String
    /// The folder in which databases with persistence keep their files; only the user can read it.
    public let directory: URL
    let tokenProvider: TokenProvider?
    /// What makes the connections of all its databases.
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
    /// The one piece of global state, with `Databases.shared`: `Database.database()` has to find the app.
    private static let apps = Mutex<[String: PathmirrorApp]>([:])

    /// Says where the default database is, before the first `Database.database()`.
    ///
    /// - Parameters:
    ///   - url: of the server, with the database's name where it is not `default`:
    ///     `https://db.example.com?ns=shop`. An invalid one ends the process.
    ///   - name: where a process has several apps; an app is configured once.
    ///   - directory: the folder for databases with persistence; by default `pathmirror` in the user's folder for
    ///     application data.
    ///   - certificateAuthorities: a file of PEM certificates that servers' certificates must be signed by, instead of those
    ///     that the system trusts. One that can't be read ends the process.
    ///   - tokenProvider: asked for the token of whoever is signed in; without one, nobody is.
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

    /// The app that was configured without a name; nil if none was.
    public static func app() -> PathmirrorApp? { app(name: defaultName) }

    /// The app of this name; nil if it was not configured.
    public static func app(name: String) -> PathmirrorApp? { apps.withLock { $0[name] } }

    /// Somebody signed in or out, or has another token: the token provider is asked again, and the app's databases tell their
    /// servers.
    public func tokenDidChange() {
        for database in Databases.shared.all where database.app === self { database.tokenDidChange() }
    }

    /// Ends the app: its databases disconnect, and what they keep on disk is there for the next start. Their listeners are
    /// told nothing more, loops over their events end, and whoever waits for an answer is told
    /// `DatabaseError.Code.disconnected`. Returns when their files are closed.
    public func delete() async {
        Self.apps.withLock { apps in
            if apps[name] === self { apps[name] = nil }
        }
        for database in Databases.shared.removeAll(of: self) { await database.close() }
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

/// All databases of the process: each place has one `Database`, as two would not see each other's writes.
final class Databases: Sendable {
    static let shared = Databases()

    private struct Place: Hashable {
        let app: String
        let address: DatabaseAddress
    }

    private let databases = Mutex<[Place: Database]>([:])

    var all: [Database] { databases.withLock { Array($0.values) } }

    func database(of app: PathmirrorApp, at address: DatabaseAddress) -> Database {
        databases.withLock { databases in
            let place = Place(app: app.name, address: address)
            if let database = databases[place] { return database }
            let database = Database(app: app, address: address)
            databases[place] = database
            return database
        }
    }

    func removeAll(of app: PathmirrorApp) -> [Database] {
        databases.withLock { databases in
            let removed = databases.filter { $0.value.app === app }
            for place in removed.keys { databases[place] = nil }
            return Array(removed.values)
        }
    }
}
