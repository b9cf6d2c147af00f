public import Postgres

/// The placement of namespaces in databases, as stored in the primary database.
extension LogConnection {
    static let placementChannel = "pathmirror_placement"

    /// Returns the number of changes of databases and placements.
    public func placementVersion() throws(LogStoreError) -> Int64 {
        try translated { () throws(PostgresError) in
            try postgres.execute("select version from pathmirror.placement_version").int64(0, 0)
        }
    }

    /// Returns all databases except the primary database, ordered by name.
    public func databases() throws(LogStoreError) -> [DatabaseRecord] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select name, host, port, dbname, installation::text, is_draining from pathmirror.database order by name
                """)
            var found: [DatabaseRecord] = []
            for row in 0..<rows.rowCount {
                found.append(
                    DatabaseRecord(
                        name: try rows.string(row, 0), host: try rows.string(row, 1),
                        port: rows.isNull(row, 2) ? nil : try rows.string(row, 2),
                        databaseName: try rows.string(row, 3), installation: try rows.string(row, 4),
                        isDraining: try rows.bool(row, 5)))
            }
            return found
        }
    }

    /// Returns the placements that changed since a version: each namespace with its database, or nil for the primary
    /// database.
    public func placements(
        since version: Int64
    ) throws(LogStoreError) -> [(namespace: String, database: String?)] {
        guard version < 0 else {
            return try placements("where version > $1 order by namespace", [.int8(version)])
        }
        // All placements are read in pieces. A placement that changes in the meantime gets a newer version, by which a
        // later call finds it.
        var found: [(namespace: String, database: String?)] = []
        while true {
            let piece = try placements(
                "where namespace > $1 order by namespace limit $2",
                [.text(found.last?.namespace ?? ""), .int8(Self.placementsAtOnce)])
            found += piece
            if piece.count < Int(Self.placementsAtOnce) { return found }
        }
    }

    /// The number of placements per statement if all are read.
    private static let placementsAtOnce: Int64 = 10_000

    private func placements(
        _ condition: String, _ parameters: PostgresParameters
    ) throws(LogStoreError) -> [(namespace: String, database: String?)] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select namespace, database from pathmirror.placement \(condition)", parameters)
            var found: [(namespace: String, database: String?)] = []
            for row in 0..<rows.rowCount {
                found.append((try rows.string(row, 0), rows.isNull(row, 1) ? nil : try rows.string(row, 1)))
            }
            return found
        }
    }

    /// Returns the database in which a namespace lives, or nil for the primary database.
    public func database(of namespace: String) throws(LogStoreError) -> DatabaseRecord? {
        let name = try translated { () throws(PostgresError) -> String? in
            let rows = try postgres.execute(
                "select database from pathmirror.placement where namespace = $1 and database is not null",
                [.text(namespace)])
            return rows.rowCount == 0 ? nil : try rows.string(0, 0)
        }
        guard let name else { return nil }
        return try databases().first { $0.name == name }
    }

    /// Assigns a namespace to a database, which creates it there when needed; nil means the primary database.
    /// Does nothing if the placement is the same already. Throws `misplaced` if the namespace can't be placed there.
    /// Requires the schema's owner.
    public func setPlacement(_ namespace: String, in database: String?) throws(LogStoreError) {
        try mayBeMisplaced { () throws(PostgresError) in
            _ = try postgres.execute(
                "select pathmirror.place($1, $2)", [.text(namespace), database.map { .text($0) } ?? .null(.text)])
        }
    }

    /// Returns the source and target of a move that is in progress or was interrupted, or nil if there is none.
    public func move(of namespace: String) throws(LogStoreError) -> (source: String, target: String)? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select source, target from pathmirror.namespace_move where namespace = $1", [.text(namespace)])
            return rows.rowCount == 0 ? nil : (try rows.string(0, 0), try rows.string(0, 1))
        }
    }

    /// Returns the namespaces that are placed in a database other than the primary database, or are moving to or from
    /// it.
    public func namespaces(in database: String) throws(LogStoreError) -> [String] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select namespace from pathmirror.placement where database = $1
                union select namespace from pathmirror.namespace_move where $1 in (source, target) order by 1
                """, [.text(database)])
            var found: [String] = []
            for row in 0..<rows.rowCount { found.append(try rows.string(row, 0)) }
            return found
        }
    }

    /// Adds a database, or changes the address of a known database. Requires the schema's owner.
    ///
    /// - Throws: `misplaced` if another database has the name, or the database is known under another name.
    public func addDatabase(_ record: DatabaseRecord) throws(LogStoreError) {
        let added = try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                insert into pathmirror.database as known (name, host, port, dbname, installation, version)
                select $1, $2, $3, $4, $5::text::uuid, pathmirror.next_placement_version()
                where not exists (select from pathmirror.database where installation = $5::text::uuid and name <> $1)
                on conflict (name) do update set host = excluded.host, port = excluded.port, dbname = excluded.dbname,
                    version = excluded.version
                where known.installation = excluded.installation
                """,
                [
                    .text(record.name), .text(record.host), record.port.map { .text($0) } ?? .null(.text),
                    .text(record.databaseName), .text(record.installation),
                ]
            ).affectedRows
        }
        guard added == 1 else {
            throw .misplaced(
                "A database \"\(record.name)\" exists already, or this database was added under another name: see 'pathmirror database ls'."
            )
        }
    }

    /// Sets whether namespaces may no longer be placed in a database. Returns false if there is no database with this
    /// name. Requires the schema's owner.
    public func drainDatabase(_ name: String, _ isDraining: Bool) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                update pathmirror.database set is_draining = $2, version = pathmirror.next_placement_version() where name = $1
                """, [.text(name), .bool(isDraining)]
            ).affectedRows == 1
        }
    }

    /// Removes a database from the table. Returns false if there is no database with this name, or if it contains a
    /// namespace or one is moving to or from it. Requires the schema's owner.
    public func removeDatabase(_ name: String) throws(LogStoreError) -> Bool {
        try inTransaction { () throws(PostgresError) in
            // Placing a namespace takes the first lock, and beginning a move the second. A statement that begins after
            // both are taken sees their results.
            _ = try postgres.execute("select pathmirror.next_placement_version()")
            _ = try postgres.execute("select from pathmirror.database where name = $1 for update", [.text(name)])
            return try postgres.execute(
                """
                delete from pathmirror.database where name = $1
                    and not exists (select from pathmirror.placement where database = $1)
                    and not exists (select from pathmirror.namespace_move where $1 in (source, target))
                """, [.text(name)]
            ).affectedRows == 1
        }
    }

    /// Checks that this connection leads to the database that was added.
    ///
    /// - Throws: `anotherInstallation` if it is another database, or has no schema of this program.
    public func check(is record: DatabaseRecord) throws(LogStoreError) {
        let found = try installationIfAny()
        guard found != record.installation else { return }
        throw .anotherInstallation(database: record.name, expected: record.installation, found: found)
    }

    private func installationIfAny() throws(LogStoreError) -> String? {
        do throws(LogStoreError) {
            return try installation()
        } catch {
            // The table does not exist.
            guard case .database(let cause) = error, cause.sqlState == "42P01" else { throw error }
            return nil
        }
    }

    /// Runs statements in one transaction and returns their results. If a namespace is given, it can't leave this
    /// database during the transaction.
    func holding(
        _ namespace: Int64?, _ steps: [PipelineStep]
    ) throws(PostgresError) -> [PostgresResult] {
        var all: [PipelineStep] = [.query("begin")]
        if let namespace { all.append(.query("select pathmirror.hold_namespace($1)", [.int8(namespace)])) }
        let first = all.count
        all += steps
        all.append(.query("commit"))
        return Array(try postgres.pipeline(all)[first..<first + steps.count])
    }

    /// Runs statements that may create, assign or change a namespace, and translates PM005 to `misplaced`.
    func mayBeMisplaced<Result>(_ body: () throws(PostgresError) -> Result) throws(LogStoreError) -> Result {
        do throws(PostgresError) {
            return try body()
        } catch {
            guard SchemaErrorCode(error) == .misplaced else { throw .database(error) }
            throw .misplaced("\(error.message.prefix(1).uppercased())\(error.message.dropFirst()).")
        }
    }
}

/// A database other than the primary database in which namespaces live, as stored in the primary database: its address,
/// without credentials.
public struct DatabaseRecord: Sendable, Equatable {
    public let name: String
    /// The host in libpq's format: several hosts and ports are separated by commas.
    public let host: String
    public let port: String?
    public let databaseName: String
    /// The database's own id, from `pathmirror.installation`.
    public let installation: String
    /// Whether namespaces may no longer be placed in the database.
    public let isDraining: Bool

    /// The name of the primary database among databases.
    public static let primary = "home"

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

    /// `host:port/database`, for display.
    public var address: String { "\(host)\(port.map { ":\($0)" } ?? "")/\(databaseName)" }

    /// Returns the connection settings: those of the primary database with this address and the options of `login`. If
    /// `login` names a user, it must contain that user's authentication as well, because the primary database's
    /// password belongs to the primary database's user.
    ///
    /// - Parameter login: a user, a password and other options of libpq, or nil for those of the primary database.
    public func url(primary: PostgresURL, login: PostgresURL?) -> PostgresURL {
        let url = primary.at(host: host, port: port, database: databaseName)
        return login.map { url.with($0) } ?? url
    }
}

extension LogConnection {
    /// Whether another session is connected to the same database on the same server, regardless of the addresses. One
    /// session takes an advisory lock, and the other tests whether it is free.
    public func isSameDatabase(as other: LogConnection) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            let lock = "hashtextextended($1, 7061746864)"
            let name: PostgresParameters = [.textBytes(Batch.makeID().map { 0x61 + $0 % 26 })]
            _ = try postgres.execute("select pg_advisory_lock(\(lock))", name)
            let isFree = try other.postgres.execute("select pg_try_advisory_lock(\(lock))::text", name).string(0, 0)
            _ = try postgres.execute("select pg_advisory_unlock(\(lock))", name)
            if isFree == "true" { _ = try other.postgres.execute("select pg_advisory_unlock(\(lock))", name) }
            return isFree != "true"
        }
    }

    /// Locks a namespace's name until the connection is closed. Meanwhile no other session can create a namespace with
    /// this name here, or assign it to another database. Waits for sessions that are doing so.
    public func holdName(_ namespace: String) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute(
                "select pg_advisory_lock(hashtextextended($1, 7061746863))", [.text(namespace)])
        }
    }

    /// Releases the lock of `holdName`.
    public func releaseName(_ namespace: String) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute(
                "select pg_advisory_unlock(hashtextextended($1, 7061746863))", [.text(namespace)])
        }
    }
}
