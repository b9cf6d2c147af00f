public import Postgres

/// A database besides the home in which namespaces live, as the home's table has it: where it is, and not how to get in.
public struct DatabaseRecord: Sendable, Equatable {
    public let name: String
    /// As libpq takes them: several hosts and ports are separated by commas.
    public let host: String
    public let port: String?
    public let databaseName: String
    /// What the database says of itself, in `pathmirror.installation`.
    public let installation: String
    /// No namespace is placed there any more.
    public let isDraining: Bool

    /// What the home is called among databases.
    public static let home = "home"

    public init(
        name: String, host: String, port: String?, databaseName: String, installation: String, isDraining: Bool = false
    ) {
        self.name = name
        self.host = host
        self.port = port
        self.databaseName = databaseName
        self.installation = installation
        self.isDraining = isDraining
    }

    /// `host:port/database`, for people.
    public var address: String { "\(host)\(port.map { ":\($0)" } ?? "")/\(databaseName)" }

    /// How to get in: as into the home, but for the place and for what `login` says. Where that names a user, it has to say how
    /// that one logs in, too: the home's password is for the home's user.
    ///
    /// - Parameter login: a user, a password, other options of libpq; nil for the home's.
    public func url(home: PostgresURL, login: PostgresURL?) -> PostgresURL {
        let place = home.at(host: host, port: port, database: databaseName)
        return login.map { place.with($0) } ?? place
    }
}
